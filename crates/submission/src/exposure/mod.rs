//! Determines which ports of a driver can be reached, and under which names and URLs: the port of the web UI, and the
//! ports of `driverIngressOptions`.

mod rights;
mod service_and_ingress;
mod url_format;

use crate::{Context, digest::md5_hex};
use api::{Identity, LONGEST_LABEL, PortExposure, SparkApplication, conf};
pub use rights::{ExposureRight, exposure_rights};
use serde_json::Value;
pub use service_and_ingress::{addresses, backend, ingress, wanted};
use spark_client::Conf;
use std::{borrow::Cow, collections::BTreeMap};
pub use url_format::{Url, UrlFormat, Variables};

/// The admin's settings for the Services and Ingresses of drivers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposure {
    /// Whether the web UI has no Service.
    pub has_no_ui_service: bool,
    /// The URL format of the web UI's Ingress; without it the web UI has no Ingress.
    pub url_format: Option<UrlFormat>,
    pub ingress_class: Option<String>,
    /// The `tls` of Ingresses whose applications do not set their own.
    pub ingress_tls: Vec<Value>,
    /// The annotations of Ingresses whose applications do not set their own.
    pub ingress_annotations: BTreeMap<String, String>,
    /// Whether Services and Ingresses are deleted as soon as their application has ended, instead of only when the
    /// application is deleted.
    pub ends_with_run: bool,
}

/// A port of the driver that can be reached.
#[derive(Debug)]
pub struct ExposedPort<'a> {
    pub service: String,
    pub ingress: String,
    pub port: i32,
    pub target_port: i32,
    /// The application's own settings.
    pub options: Cow<'a, PortExposure>,
    /// The name of the port if the application sets none.
    default_name: Cow<'a, str>,
    pub url_format: Option<Cow<'a, UrlFormat>>,
    /// The admin's settings for all applications.
    admins: &'a Exposure,
}

/// Spark's default for `spark.ui.port`.
const UI_PORT: i32 = 4040;
const UI_PORT_NAME: &str = "spark-driver-ui-port";
/// The type of a Service if the application sets none. Such a Service can be reached only inside the cluster.
const SERVICE_TYPE: &str = "ClusterIP";
/// The number of characters of a name's hash that a shortened name contains, between two dashes.
const HASH: usize = 8;

/// Returns the port of the web UI; `None` if the web UI is turned off, has no Service, or has a random port.
pub fn ui<'a>(application: &'a SparkApplication, admins: &'a Exposure) -> Option<ExposedPort<'a>> {
    if is_ui_off(application) || admins.has_no_ui_service {
        return None;
    }
    let target_port = ui_port(application)?;
    let options = application.spec.spark_ui_options.as_ref();
    Some(ExposedPort {
        service: name(application, "ui-svc"),
        ingress: name(application, "ui-ingress"),
        port: options.map_or(target_port, |options| options.service_port.unwrap_or(UI_PORT)),
        target_port,
        options: options.map_or_else(Cow::default, Cow::Borrowed),
        default_name: UI_PORT_NAME.into(),
        url_format: admins.url_format.as_ref().map(Cow::Borrowed),
        admins,
    })
}

/// Returns the ports of `driverIngressOptions`.
pub fn others<'a>(
    application: &'a SparkApplication,
    admins: &'a Exposure,
) -> impl Iterator<Item = ExposedPort<'a>> {
    let options = application.spec.driver_ingress_options.iter();
    options.filter_map(move |options| {
        let port = options.exposure.service_port.filter(|port| matches!(port, 1..=65535))?;
        let format = options.ingress_url_format.as_deref().and_then(|text| UrlFormat::parse(text).ok());
        Some(ExposedPort {
            service: name(application, &format!("driver-{port}")),
            ingress: name(application, &format!("ing-{port}")),
            port,
            target_port: port,
            options: Cow::Borrowed(&options.exposure),
            default_name: format!("driver-ing-{port}").into(),
            url_format: format.map(Cow::Owned),
            admins,
        })
    })
}

/// Returns all ports that can be reached.
fn all<'a>(application: &'a SparkApplication, admins: &'a Exposure) -> impl Iterator<Item = ExposedPort<'a>> {
    ui(application, admins).into_iter().chain(others(application, admins))
}

/// Whether the application turns Spark's web UI off.
pub fn is_ui_off(application: &SparkApplication) -> bool {
    let is_on = application.spec.spark_conf.get(conf::UI_ENABLED);
    is_on.is_some_and(|is_on| is_on.trim().eq_ignore_ascii_case("false"))
}

/// Returns the port that the web UI listens on, according to the application; `None` if Spark chooses it at random.
pub fn ui_port(application: &SparkApplication) -> Option<i32> {
    let given = application.spec.spark_conf.get(conf::UI_PORT).and_then(|port| port.trim().parse().ok());
    Some(given.unwrap_or(UI_PORT)).filter(|port| matches!(port, 1..=65535))
}

/// Returns `<application>-<suffix>`. A name that is too long is shortened and gets a hash of the complete name, as in
/// Kubeflow's operator for its UI Services.
fn name(application: &SparkApplication, suffix: &str) -> String {
    let application = application.own_name();
    let name = format!("{application}-{suffix}");
    if name.len() <= LONGEST_LABEL {
        return name;
    }
    let hash = &md5_hex(name.as_bytes())[..HASH];
    let room = LONGEST_LABEL - suffix.len() - HASH - 2;
    format!("{}-{hash}-{suffix}", &application[..application.floor_char_boundary(room)])
}

/// Returns the values of the variables in URL formats for `application`. `id` is Spark's application id (`spark-…`).
fn variables<'a>(application: &'a SparkApplication, id: Option<&'a str>) -> Variables<'a> {
    Variables { name: application.own_name(), namespace: application.own_namespace(), id }
}

impl ExposedPort<'_> {
    fn ingress_tls(&self) -> Vec<Value> {
        let own = &self.options.ingress_tls;
        if own.is_empty() {
            return self.admins.ingress_tls.clone();
        }
        own.iter().map(|tls| tls.json().clone()).collect()
    }

    /// Returns the URL of the driver's port outside the cluster; `None` if the port has no URL format, or if the URL
    /// contains Spark's application id (`spark-…`) and the driver does not have one yet.
    ///
    /// # Errors
    ///
    /// When the URL is invalid: the reason.
    pub fn url(&self, application: &SparkApplication, id: Option<&str>) -> Result<Option<Url>, String> {
        self.url_format.as_ref().map_or(Ok(None), |format| format.url(variables(application, id)))
    }

    /// Returns `url` as text. If the format names no scheme, the scheme is `https` if the Ingress has a certificate,
    /// otherwise `http`.
    pub fn address(&self, url: &Url) -> String {
        url.address(if self.ingress_tls().is_empty() { "http" } else { "https" })
    }
}

/// Returns the path of the web UI outside the cluster; `None` if the URL has no path, or if the path contains Spark's
/// application id and `id` is `None`.
pub fn ui_path(application: &SparkApplication, id: Option<&str>, admins: &Exposure) -> Option<String> {
    let format = ui(application, admins)?.url_format?;
    format.path(variables(application, id))
}

/// Sets the path of the web UI outside the cluster, so that the links in the web UI work there. These are only defaults: the
/// values of `sparkConf` are set later and override them.
pub(crate) fn web_ui(context: &Context, properties: &mut Conf) {
    if let Some(path) = &context.ui_path {
        properties.set(conf::UI_PROXY_BASE, path);
        properties.set(conf::UI_PROXY_REDIRECT_URI, "/");
    }
}

/// Whether the path of the web UI contains Spark's application id.
pub fn has_id_in_ui_path(application: &SparkApplication, admins: &Exposure) -> bool {
    // Such a path is not known without the id.
    ui_path(application, None, admins) != ui_path(application, Some("spark-0"), admins)
}

/// Returns one sentence for each port of `application` that cannot have an Ingress because its URL is invalid. `id` is
/// Spark's application id.
pub fn without_address(application: &SparkApplication, id: Option<&str>, admins: &Exposure) -> Vec<String> {
    let why = |exposed: ExposedPort| {
        let why = exposed.url(application, id).err()?;
        Some(format!("Ingress {} is not created, because its URL is invalid: {why}", exposed.ingress))
    };
    all(application, admins).filter_map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_shortened_as_in_kubeflows_operator() {
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
