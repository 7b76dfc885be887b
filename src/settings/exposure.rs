//! The flags of the Services and Ingresses of drivers.

use clap::Args;
use k8s_openapi::api::networking::v1::IngressTLS;
use plan::auxiliary::{Exposure, UrlFormat};
use serde_json::Value;
use std::collections::BTreeMap;

/// How the web UIs of drivers are reached, and their ports that applications name.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Web UI")]
pub struct ExposureSettings {
    /// Whether each driver's web UI has a Service
    #[arg(long, default_value_t = true)]
    pub enable_ui_service: bool,

    /// The address of each web UI, for which it has an Ingress: `{{$appName}}.example.com`,
    /// `example.com/{{$appNamespace}}/{{$appName}}`; there is also {{$appId}}, Spark's own id [default: there is none]
    #[arg(long, value_name = "FORMAT", default_value = "", value_parser = url_format, hide_default_value = true)]
    pub ingress_url_format: OptionalUrlFormat,

    /// The class of Ingresses [default: the cluster's]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub ingress_class_name: String,

    /// The certificates of Ingresses whose applications do not say themselves: `[{"hosts": […], "secretName": "…"}]`
    #[arg(long, value_name = "JSON", default_value = "", value_parser = tls, hide_default_value = true)]
    pub ingress_tls: Certificates,

    /// The annotations of Ingresses whose applications do not say themselves: `{"name": "value"}`
    #[arg(long, value_name = "JSON", default_value = "", value_parser = annotations, hide_default_value = true)]
    pub ingress_annotations: Annotations,

    /// Delete an application's Services and Ingresses when it has ended, and not only with it: thousands of Services in
    /// a namespace keep pods from starting, for the environment variables that Kubernetes makes of each
    #[arg(long)]
    pub delete_ui_service_on_end: bool,
}

/// The format of an address, or `None` if the flag is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionalUrlFormat(pub Option<UrlFormat>);

/// Entries of Kubernetes' type IngressTLS, exactly as the flag has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificates(pub Vec<Value>);

/// The annotations of an Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotations(pub BTreeMap<String, String>);

impl ExposureSettings {
    /// Returns these settings as [`Exposure`], which the plan uses.
    #[must_use]
    pub fn exposure(&self) -> Exposure {
        Exposure {
            has_ui_service: self.enable_ui_service,
            url_format: self.ingress_url_format.0.clone(),
            ingress_class: Some(self.ingress_class_name.clone()).filter(|class| !class.is_empty()),
            ingress_tls: self.ingress_tls.0.clone(),
            ingress_annotations: self.ingress_annotations.0.clone(),
            ends_with_run: self.delete_ui_service_on_end,
        }
    }
}

fn url_format(text: &str) -> Result<OptionalUrlFormat, String> {
    let format = if text.is_empty() { None } else { Some(UrlFormat::parse(text)?) };
    Ok(OptionalUrlFormat(format))
}

fn tls(text: &str) -> Result<Certificates, String> {
    if text.is_empty() {
        return Ok(Certificates(Vec::new()));
    }
    let wrong =
        |error| format!("{error} (try `[{{\"hosts\": [\"ui.example.com\"], \"secretName\": \"ui\"}}]`)");
    // Fields that this version does not know are kept, because the cluster's Kubernetes may know them.
    serde_json::from_str::<Vec<IngressTLS>>(text).map_err(wrong)?;
    serde_json::from_str(text).map(Certificates).map_err(wrong)
}

fn annotations(text: &str) -> Result<Annotations, String> {
    if text.is_empty() {
        return Ok(Annotations(BTreeMap::new()));
    }
    let annotations = serde_json::from_str(text);
    annotations
        .map(Annotations)
        .map_err(|error| format!("{error} (try `{{\"example.com/name\": \"value\"}}`)"))
}
