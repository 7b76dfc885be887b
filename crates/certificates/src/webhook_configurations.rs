//! Reads and writes the `caBundle` of each webhook in the webhook configurations.

use api::Lenient;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, PatchParams},
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
    /// The host name `<service>.<namespace>.svc` under which the API server calls the webhook; none if the webhook is
    /// called by a URL instead of a Service.
    pub service_name: Option<String>,
    /// The CAs that the API server trusts for this webhook, in PEM.
    pub ca_bundle: Option<String>,
}

/// Why the configurations cannot be read or corrected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{kind} {name}: {source}")]
    Api { kind: String, name: String, source: Box<kube::Error> },
    #[error("{kind} {name} cannot be read: {error}; apply manifests/webhook")]
    Unreadable { kind: String, name: String, error: String },
    #[error("MutatingWebhookConfiguration {name} does not exist: apply manifests/webhook")]
    Missing { name: String },
    #[error("{kind} {name} has changed since it was read")]
    Changed { kind: String, name: String },
}

impl Configurations {
    /// Reads the webhook configurations. The MutatingWebhookConfiguration, which pods need, must be installed; the
    /// ValidatingWebhookConfiguration is optional.
    ///
    /// # Errors
    ///
    /// If a configuration cannot be read, or the MutatingWebhookConfiguration does not exist.
    pub async fn read(client: &Client, mutating_name: &str, validating_name: &str) -> Result<Self, Error> {
        let mutating = ApiResource::erase::<MutatingWebhookConfiguration>(&());
        let validating = ApiResource::erase::<ValidatingWebhookConfiguration>(&());
        let mut found = Vec::new();
        for (resource, name) in [(mutating, mutating_name), (validating, validating_name)] {
            let api = Api::<Lenient<DynamicObject>>::all_with(client.clone(), &resource);
            let kind = resource.kind;
            let object = api.get_opt(name).await.map_err(|source| Error::Api {
                kind: kind.clone(),
                name: name.to_owned(),
                source: Box::new(source),
            })?;
            match object.map(|object| object.0) {
                Some(Ok(object)) => found.push(Configuration { kind, api, object }),
                Some(Err(invalid)) => {
                    return Err(Error::Unreadable { kind, name: name.to_owned(), error: invalid.error });
                }
                None if found.is_empty() => return Err(Error::Missing { name: name.to_owned() }),
                None => {}
            }
        }
        Ok(Self(found))
    }

    /// Returns the kind and the name of each configuration, and its webhooks as the API server has sent them.
    pub(super) fn webhooks(&self) -> impl Iterator<Item = (&str, String, &[Value])> {
        self.0.iter().map(|Configuration { kind, object, .. }| {
            let webhooks = object.data.get("webhooks").and_then(Value::as_array);
            (kind.as_str(), object.name_any(), webhooks.map_or(&[][..], Vec::as_slice))
        })
    }

    /// Returns all webhooks of all configurations.
    pub fn hooks(&self) -> Vec<Hook> {
        self.0.iter().flat_map(Configuration::hooks).collect()
    }

    /// Writes `bundle` into every webhook that has another `caBundle` or none. Returns whether all webhooks had
    /// `bundle` already.
    ///
    /// # Errors
    ///
    /// If the API server refuses, or a configuration has changed since it was read.
    pub(super) async fn publish(&self, bundle: &str) -> Result<bool, Error> {
        let mut all_had_it = true;
        for configuration in &self.0 {
            all_had_it &= configuration.publish(bundle).await?;
        }
        Ok(all_had_it)
    }
}

/// The fields of a webhook that this module reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    name: String,
    client_config: ClientConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    ca_bundle: Option<ByteString>,
    service: Option<Service>,
}

#[derive(Deserialize)]
struct Service {
    name: String,
    namespace: String,
}

impl Configuration {
    fn webhooks(&self) -> Vec<Webhook> {
        let webhooks = self.object.data.get("webhooks").unwrap_or(&Value::Null);
        webhooks.as_array().into_iter().flatten().filter_map(|hook| Webhook::deserialize(hook).ok()).collect()
    }

    fn hooks(&self) -> Vec<Hook> {
        let hook = |webhook: Webhook| Hook {
            configuration: format!("{}/{}", self.kind, self.object.name_any()),
            name: webhook.name,
            service_name: webhook
                .client_config
                .service
                .map(|service| format!("{}.{}.svc", service.name, service.namespace)),
            ca_bundle: webhook.client_config.ca_bundle.and_then(|pem| String::from_utf8(pem.0).ok()),
        };
        self.webhooks().into_iter().map(hook).collect()
    }

    async fn publish(&self, bundle: &str) -> Result<bool, Error> {
        let bundle = ByteString(bundle.as_bytes().to_vec());
        let differs = |webhook: &Webhook| webhook.client_config.ca_bundle.as_ref() != Some(&bundle);
        let operations: Vec<_> = self
            .webhooks()
            .iter()
            .enumerate()
            .filter(|(_, webhook)| differs(webhook))
            .map(|(i, _)| {
                let path = format!("/webhooks/{i}/clientConfig/caBundle");
                // `add` replaces an existing bundle, too, and also works if there is no bundle yet.
                PatchOperation::Add(AddOperation { path: pointer(&path), value: json!(bundle) })
            })
            .collect();
        if operations.is_empty() {
            return Ok(true);
        }
        // The patch applies only to the version that was read: the indices refer to that version, and a replica that
        // has changed the configuration since then may know newer certificates than this process.
        let version = PatchOperation::Test(TestOperation {
            path: pointer("/metadata/resourceVersion"),
            value: json!(self.object.metadata.resource_version),
        });
        let patch = Patch(std::iter::once(version).chain(operations).collect());
        let patch = kube::api::Patch::Json::<()>(patch);
        let (kind, name) = (self.kind.clone(), self.object.name_any());
        match self.api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(_) => {
                info!(configuration = format!("{kind}/{name}"), "caBundle set");
                Ok(false)
            }
            // The API server answers 422 if the `test` operation fails.
            Err(kube::Error::Api(status)) if status.code == 422 || status.is_conflict() => {
                Err(Error::Changed { kind, name })
            }
            Err(source) => Err(Error::Api { kind, name, source: Box::new(source) }),
        }
    }
}

fn pointer(path: &str) -> json_patch::jsonptr::PointerBuf {
    path.parse().expect("written with a leading slash and without tildes")
}
