//! The ports of a driver that can be reached, with their names and addresses: the port of the web UI and those of
//! `driverIngressOptions`.

use super::url_format::{Url, UrlFormat, Variables};
use crate::{Policy, digest::md5_hex};
use api::{DriverIngressOptions, Embedded, SparkApplication, SparkUiOptions, names::conf};
use k8s_openapi::api::networking::v1::IngressTLS;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

/// What the admin decided about the addresses of drivers.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposure {
    /// Whether the web UI has a Service.
    pub has_ui_service: bool,
    /// Of the web UI's Ingress; without it there is none.
    pub url_format: Option<UrlFormat>,
    pub ingress_class: Option<String>,
    /// Of Ingresses whose applications do not say themselves.
    pub ingress_tls: Vec<Value>,
    /// The same.
    pub ingress_annotations: BTreeMap<String, String>,
    /// Whether Services and Ingresses go when their application has ended, and not only with it.
    pub ends_with_run: bool,
}

impl Default for Exposure {
    fn default() -> Self {
        Self {
            has_ui_service: true,
            url_format: None,
            ingress_class: None,
            ingress_tls: Vec::new(),
            ingress_annotations: BTreeMap::new(),
            ends_with_run: false,
        }
    }
}

/// A port of the driver that can be reached.
#[derive(Debug)]
pub(super) struct Door<'a> {
    pub service: String,
    pub ingress: String,
    pub port: i32,
    pub port_name: Cow<'a, str>,
    pub target_port: i32,
    pub service_type: &'a str,
    pub service_labels: Cow<'a, BTreeMap<String, String>>,
    pub service_annotations: Cow<'a, BTreeMap<String, String>>,
    pub url_format: Option<Cow<'a, UrlFormat>>,
    pub ingress_annotations: &'a BTreeMap<String, String>,
    pub ingress_tls: Vec<Value>,
}

/// Spark's.
const UI_PORT: i32 = 4040;
const UI_PORT_NAME: &str = "spark-driver-ui-port";
const SERVICE_TYPE: &str = "ClusterIP";
/// A DNS label is no longer.
const LONGEST_NAME: usize = 63;
/// So much of a name's hash stands in it where it is cut, with a dash before and one behind it.
const HASH: usize = 8;

/// The web UI's, if it is to be reached.
pub(super) fn ui<'a>(application: &'a SparkApplication, policy: &'a Policy) -> Option<Door<'a>> {
    let spec = &application.spec;
    if is_ui_off(application) || !policy.exposure.has_ui_service {
        return None;
    }
    let target_port = ui_port(application)?;
    let nothing = || Cow::Owned(BTreeMap::new());
    let options = spec.spark_ui_options.as_ref();
    let of = |map: fn(&SparkUiOptions) -> &BTreeMap<String, String>| {
        options.map_or_else(nothing, |options| Cow::Borrowed(map(options)))
    };
    let port = options.map_or(target_port, |options| options.service_port.unwrap_or(UI_PORT));
    Some(Door {
        service: name(application, "ui-svc"),
        ingress: name(application, "ui-ingress"),
        port,
        port_name: stated(options.and_then(|options| options.service_port_name.as_ref()))
            .map_or(UI_PORT_NAME.into(), Into::into),
        target_port,
        service_type: stated(options.and_then(|options| options.service_type.as_ref()))
            .unwrap_or(SERVICE_TYPE),
        service_labels: of(|options| &options.service_labels),
        service_annotations: of(|options| &options.service_annotations),
        url_format: policy.exposure.url_format.as_ref().map(Cow::Borrowed),
        ingress_annotations: options
            .map(|options| &options.ingress_annotations)
            .filter(|annotations| !annotations.is_empty())
            .unwrap_or(&policy.exposure.ingress_annotations),
        ingress_tls: tls(options.map_or(&[][..], |options| &options.ingress_tls), policy),
    })
}

/// Those of `driverIngressOptions`.
pub(super) fn others<'a>(
    application: &'a SparkApplication,
    policy: &'a Policy,
) -> impl Iterator<Item = Door<'a>> {
    application
        .spec
        .driver_ingress_options
        .iter()
        .filter_map(move |options| other(application, options, policy))
}

fn other<'a>(
    application: &SparkApplication,
    options: &'a DriverIngressOptions,
    policy: &'a Policy,
) -> Option<Door<'a>> {
    let port = options.service_port.filter(|port| is_port(*port))?;
    let default_name = || format!("driver-ing-{port}").into();
    let format = options.ingress_url_format.as_deref().and_then(|text| UrlFormat::parse(text).ok());
    let annotations = Some(&options.ingress_annotations).filter(|annotations| !annotations.is_empty());
    Some(Door {
        service: name(application, &format!("driver-{port}")),
        ingress: name(application, &format!("ing-{port}")),
        port,
        port_name: stated(options.service_port_name.as_ref()).map_or_else(default_name, Into::into),
        target_port: port,
        service_type: stated(options.service_type.as_ref()).unwrap_or(SERVICE_TYPE),
        service_labels: Cow::Borrowed(&options.service_labels),
        service_annotations: Cow::Borrowed(&options.service_annotations),
        url_format: format.map(Cow::Owned),
        ingress_annotations: annotations.unwrap_or(&policy.exposure.ingress_annotations),
        ingress_tls: tls(&options.ingress_tls, policy),
    })
}

fn tls(own: &[Embedded<IngressTLS>], policy: &Policy) -> Vec<Value> {
    if own.is_empty() {
        return policy.exposure.ingress_tls.clone();
    }
    own.iter().map(|tls| tls.json().clone()).collect()
}

fn stated(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

/// Whether the application has Spark serve no web UI.
#[must_use]
pub fn is_ui_off(application: &SparkApplication) -> bool {
    application
        .spec
        .spark_conf
        .get(conf::UI_ENABLED)
        .is_some_and(|is| is.trim().eq_ignore_ascii_case("false"))
}

/// The port that the web UI listens on, as far as the application says so; none if Spark draws it.
#[must_use]
pub fn ui_port(application: &SparkApplication) -> Option<i32> {
    let given = application.spec.spark_conf.get(conf::UI_PORT).and_then(|port| port.trim().parse().ok());
    Some(given.unwrap_or(UI_PORT)).filter(|port| is_port(*port))
}

pub(crate) const fn is_port(port: i32) -> bool {
    matches!(port, 1..=65535)
}

/// `<application>-<suffix>`, cut with a hash of the whole where that is too long: as KF does it for its UI Services.
fn name(application: &SparkApplication, suffix: &str) -> String {
    let application = application.metadata.name.as_deref().unwrap_or_default();
    let name = format!("{application}-{suffix}");
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let hash = &md5_hex(name.as_bytes())[..HASH];
    let room = LONGEST_NAME - suffix.len() - HASH - 2;
    format!("{}-{hash}-{suffix}", &application[..application.floor_char_boundary(room)])
}

/// What variables of addresses stand for in `application`, which Spark calls `id`.
pub(super) fn variables<'a>(application: &'a SparkApplication, id: Option<&'a str>) -> Variables<'a> {
    let metadata = &application.metadata;
    Variables {
        name: metadata.name.as_deref().unwrap_or_default(),
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        id,
    }
}

impl Door<'_> {
    /// Its address from outside; none if it has none, or it is not known yet.
    pub(super) fn url(
        &self,
        application: &SparkApplication,
        id: Option<&str>,
    ) -> Result<Option<Url>, String> {
        let format = self.url_format.as_ref().map(|format| format.url(variables(application, id)));
        format.unwrap_or(Ok(None))
    }

    /// `https` where there is a certificate and nobody says otherwise.
    pub(super) fn address(&self, url: &Url) -> String {
        url.address(if self.ingress_tls.is_empty() { "http" } else { "https" })
    }
}

/// Under which path others see the web UI of an application that Spark calls `id`; none if under none, or if that
/// cannot be known.
#[must_use]
pub fn ui_path(application: &SparkApplication, id: Option<&str>, policy: &Policy) -> Option<String> {
    let format = ui(application, policy)?.url_format?;
    format.path(variables(application, id))
}

/// Whether the web UI is exposed under a path that depends on what Spark calls the application.
#[must_use]
pub fn has_id_in_ui_path(application: &SparkApplication, policy: &Policy) -> bool {
    let format = ui(application, policy).and_then(|door| door.url_format);
    format.is_some_and(|format| format.has_id_in_path())
}

/// Why ports of `application` have no address, one sentence each; `id` is what Spark calls it.
#[must_use]
pub fn without_address(application: &SparkApplication, id: Option<&str>, policy: &Policy) -> Vec<String> {
    let doors = ui(application, policy).into_iter().chain(others(application, policy));
    let why = |door: Door| {
        let why = door.url(application, id).err()?;
        Some(format!("there is no Ingress {}: of its address, {why}", door.ingress))
    };
    doors.filter_map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_cut_as_kubeflows() {
        let named = |name: &str| SparkApplication::new(name, api::SparkApplicationSpec::default());
        assert_eq!(name(&named("pi"), "ui-svc"), "pi-ui-svc");
        let fits = "a".repeat(56);
        assert_eq!(name(&named(&fits), "ui-svc"), format!("{fits}-ui-svc"));
        let long = "a".repeat(57);
        let cut = name(&named(&long), "ui-svc");
        let hash = &md5_hex(format!("{long}-ui-svc").as_bytes())[..8];
        assert_eq!(cut, format!("{}-{hash}-ui-svc", "a".repeat(63 - 6 - 10)));
        assert_eq!(cut.len(), 63);
    }
}
