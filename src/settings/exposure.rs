//! The flags of the Services and Ingresses of drivers.

use clap::Args;
use k8s_openapi::api::networking::v1::IngressTLS;
use serde_json::Value;
use std::collections::BTreeMap;
use submission::exposure::{Exposure, UrlFormat};

/// How the web UIs of drivers, and the other ports that applications name, are reached.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Web UI")]
pub struct ExposureSettings {
    /// Whether each driver's web UI has a Service
    #[arg(long, default_value_t = true)]
    pub enable_ui_service: bool,

    /// The URL of each web UI, for which it gets an Ingress: `{{$appName}}.example.com`,
    /// `example.com/{{$appNamespace}}/{{$appName}}`; there is also {{$appId}}, Spark's own id [default: there is none]
    #[arg(long, value_name = "FORMAT", default_value = "", value_parser = url_format, hide_default_value = true)]
    // With its path, here and below: clap reads `Option` as a flag that may be missing, and `Vec` as one that may be repeated.
    pub ingress_url_format: std::option::Option<UrlFormat>,

    /// The class of Ingresses [default: the cluster's]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub ingress_class_name: String,

    /// The certificates of Ingresses whose applications set none: `[{"hosts": […], "secretName": "…"}]`
    #[arg(long, value_name = "JSON", default_value = "", value_parser = tls, hide_default_value = true)]
    pub ingress_tls: std::vec::Vec<Value>,

    /// The annotations of Ingresses whose applications set none: `{"name": "value"}`
    #[arg(long, value_name = "JSON", default_value = "", value_parser = annotations, hide_default_value = true)]
    pub ingress_annotations: BTreeMap<String, String>,

    /// Delete an application's Services and Ingresses when it has ended, not only when it is deleted: thousands of
    /// Services in a namespace keep pods from starting, because Kubernetes adds environment variables for each
    #[arg(long)]
    pub delete_ui_service_on_end: bool,
}

impl ExposureSettings {
    /// Returns these settings as [`Exposure`], which the plan uses.
    pub fn exposure(&self) -> Exposure {
        Exposure {
            has_no_ui_service: !self.enable_ui_service,
            url_format: self.ingress_url_format.clone(),
            ingress_class: Some(self.ingress_class_name.clone()).filter(|class| !class.is_empty()),
            ingress_tls: self.ingress_tls.clone(),
            ingress_annotations: self.ingress_annotations.clone(),
            ends_with_run: self.delete_ui_service_on_end,
        }
    }
}

fn url_format(text: &str) -> Result<Option<UrlFormat>, String> {
    if text.is_empty() { Ok(None) } else { UrlFormat::parse(text).map(Some) }
}

fn tls(text: &str) -> Result<Vec<Value>, String> {
    let text = if text.is_empty() { "[]" } else { text };
    let wrong =
        |error| format!("{error} (try `[{{\"hosts\": [\"ui.example.com\"], \"secretName\": \"ui\"}}]`)");
    // Fields that this version does not know are kept, because the cluster's Kubernetes may know them.
    serde_json::from_str::<Vec<IngressTLS>>(text).map_err(wrong)?;
    serde_json::from_str(text).map_err(wrong)
}

fn annotations(text: &str) -> Result<BTreeMap<String, String>, String> {
    let text = if text.is_empty() { "{}" } else { text };
    serde_json::from_str(text).map_err(|error| format!("{error} (try `{{\"example.com/name\": \"value\"}}`)"))
}
