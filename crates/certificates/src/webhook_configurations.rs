//! Reads and writes the `caBundle` of each webhook in the webhook configurations.

use super::{error::Error, object_names::Places};
use api::Lenient;
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

/// The webhook configurations that are installed.
pub struct Configurations(Vec<Configuration>);

struct Configuration {
    kind: String,
    api: Api<Lenient<DynamicObject>>,
    object: DynamicObject,
}

/// One webhook of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The kind and the name of the configuration, separated by a slash.
    pub configuration: String,
    pub name: String,
    /// The host name `<service>.<namespace>.svc` under which the API server calls the webhook; `None` if the webhook is
    /// called by a URL instead of a Service.
    pub service_name: Option<String>,
    /// The CAs that the API server trusts for this webhook, in PEM.
    pub ca_bundle: Option<String>,
}

impl Configurations {
    /// Reads the webhook configurations. The MutatingWebhookConfiguration, which pods need, must be installed; the
    /// ValidatingWebhookConfiguration is optional.
    ///
    /// # Errors
    ///
    /// If a configuration cannot be read, or the MutatingWebhookConfiguration does not exist.
    pub async fn read(client: &Client, places: &Places) -> Result<Self, Error> {
        let mutating = ApiResource::erase::<MutatingWebhookConfiguration>(&());
        let validating = ApiResource::erase::<ValidatingWebhookConfiguration>(&());
        let mut found = Vec::new();
        let mutating = (mutating, &places.mutating_configuration);
        let validating = (validating, &places.validating_configuration);
        for (resource, name) in [mutating, validating] {
            let api = Api::<Lenient<DynamicObject>>::all_with(client.clone(), &resource);
            let kind = resource.kind;
            let title = format!("{kind} {name}");
            let object = api.get_opt(name).await.map_err(|source| Error::api(&title, source))?;
            let why = match object.map(|object| object.0) {
                Some(Ok(object)) => {
                    found.push(Configuration { kind, api, object });
                    continue;
                }
                Some(Err(invalid)) => format!("cannot be read: {}; apply manifests/webhook", invalid.error),
                None if found.is_empty() => "does not exist: apply manifests/webhook".to_owned(),
                None => continue,
            };
            return Err(Error::Unfit(format!("{title} {why}")));
        }
        Ok(Self(found))
    }

    /// Returns the kind and the name of each configuration, and its webhooks as the API server has sent them.
    pub(super) fn webhooks(&self) -> impl Iterator<Item = (&str, String, &[Value])> {
        self.0.iter().map(|found| (found.kind.as_str(), found.object.name_any(), found.webhooks()))
    }

    /// Returns all webhooks of all configurations.
    pub fn hooks(&self) -> Vec<Hook> {
        self.0.iter().flat_map(Configuration::hooks).map(|(_, hook)| hook).collect()
    }

    /// Writes `bundle` into every webhook that has another `caBundle` or none. Returns whether all webhooks had
    /// `bundle` already.
    ///
    /// # Errors
    ///
    /// If the API server refuses, or a configuration has changed since it was read.
    pub(super) async fn publish(&self, bundle: &str) -> Result<bool, Error> {
        let value = ByteString(bundle.as_bytes().to_vec());
        let mut all_had_it = true;
        for configuration in &self.0 {
            let Configuration { kind, api, object } = configuration;
            // The patch applies only to the version that was read: the indices refer to that version, and a replica that
            // has changed the configuration since then may know newer certificates than this process.
            let version = &object.metadata.resource_version;
            let mut patch =
                vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": version})];
            let others = configuration.hooks().filter(|(_, hook)| hook.ca_bundle.as_deref() != Some(bundle));
            patch.extend(others.map(|(i, _)| {
                // `add` replaces an existing bundle, too, and also works if there is no bundle yet.
                json!({"op": "add", "path": format!("/webhooks/{i}/clientConfig/caBundle"), "value": value})
            }));
            if patch.len() == 1 {
                continue;
            }
            all_had_it = false;
            let patch = serde_json::from_value(patch.into()).expect("a test and additions are a patch");
            let (name, patch) = (object.name_any(), Patch::Json::<()>(patch));
            let object = format!("{kind} {name}");
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => info!(configuration = format!("{kind}/{name}"), "caBundle set"),
                // The API server answers 422 if the `test` operation fails.
                Err(kube::Error::Api(status)) if status.code == 422 || status.is_conflict() => {
                    return Err(Error::Changed { object });
                }
                Err(source) => return Err(Error::api(&object, source)),
            }
        }
        Ok(all_had_it)
    }
}

impl Configuration {
    fn webhooks(&self) -> &[Value] {
        self.object.data["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the webhooks that can be read, each with its index.
    fn hooks(&self) -> impl Iterator<Item = (usize, Hook)> {
        self.webhooks().iter().enumerate().filter_map(move |(i, webhook)| {
            let called = WebhookClientConfig::deserialize(&webhook["clientConfig"]).ok()?;
            let host = |service: ServiceReference| format!("{}.{}.svc", service.name, service.namespace);
            let hook = Hook {
                configuration: format!("{}/{}", self.kind, self.object.name_any()),
                name: webhook["name"].as_str()?.to_owned(),
                service_name: called.service.map(host),
                ca_bundle: called.ca_bundle.and_then(|pem| String::from_utf8(pem.0).ok()),
            };
            Some((i, hook))
        })
    }
}
