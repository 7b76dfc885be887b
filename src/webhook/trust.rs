//! How do the webhook's certificates get where they are needed: into a Secret, into our listener, into the
//! webhook configuration?

use super::{
    certificates::{Certificates, Unfit},
    serving_certificate::{self, ServingCertificate},
};
use jiff::Timestamp;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PatchParams, PostParams},
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};
use tracing::info;

/// Keys of the Secret, which are KF's.
mod key {
    pub(super) const CA_CERTIFICATE: &str = "ca-cert.pem";
    pub(super) const CA_KEY: &str = "ca-key.pem";
    pub(super) const CERTIFICATE: &str = "server-cert.pem";
    pub(super) const KEY: &str = "server-key.pem";
}

/// Where certificates go.
#[derive(Clone, Debug)]
pub struct Places {
    /// The namespace of the Secret and of the webhook's Service.
    pub namespace: String,
    pub secret: String,
    /// The webhook's Service.
    pub service: String,
    /// The MutatingWebhookConfiguration whose caBundle is kept.
    pub webhook_configuration: String,
}

/// Why the webhook is not trusted yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Secret {secret}: {source}")]
    Secret { secret: String, source: kube::Error },
    #[error("MutatingWebhookConfiguration {name}: {source}")]
    WebhookConfiguration { name: String, source: kube::Error },
    #[error("MutatingWebhookConfiguration {name} does not exist: apply manifests/webhook")]
    NoWebhookConfiguration { name: String },
    #[error("certificates cannot be made: {0}")]
    Generate(#[from] rcgen::Error),
    #[error(transparent)]
    Serve(#[from] serving_certificate::Error),
}

/// Keeps the API server's trust in the webhook.
pub struct Trust {
    client: Client,
    places: Places,
    serving: Arc<ServingCertificate>,
}

impl Trust {
    pub fn new(client: Client, places: Places, serving: Arc<ServingCertificate>) -> Self {
        Self { client, places, serving }
    }

    /// Makes the certificates if there are none that are fit, serves them, and puts the CA into the webhook
    /// configuration. Changes nothing that is right already, so it can be called at any time.
    ///
    /// # Errors
    ///
    /// When the API server refuses something, or the webhook configuration is not installed. Whatever was
    /// done stays done.
    pub async fn establish(&self, now: Timestamp) -> Result<(), Error> {
        let certificates = self.certificates(now).await?;
        self.serving.set(&certificates.certificate, &certificates.key)?;
        self.publish(&certificates.ca_certificate).await
    }

    /// The API server calls the Service by its short name; `localhost` (as in KF) is for a webhook that runs
    /// beside the API server.
    fn dns_names(&self) -> Vec<String> {
        let Places { namespace, service, .. } = &self.places;
        vec![format!("{service}.{namespace}.svc"), "localhost".to_owned()]
    }

    async fn certificates(&self, now: Timestamp) -> Result<Certificates, Error> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.places.namespace);
        let name = &self.places.secret;
        let failed = |source| Error::Secret { secret: format!("{}/{name}", self.places.namespace), source };
        let names = self.dns_names();
        // Again, where another replica is first to write: its certificates are ours too.
        loop {
            let existing = secrets.get_opt(name).await.map_err(failed)?;
            let found = existing.as_ref().and_then(decoded);
            let fit = found.as_ref().map(|found| names.iter().try_for_each(|name| found.check(name, now)));
            if let (Some(found), Some(Ok(()))) = (found, &fit) {
                return Ok(found);
            }
            let reason =
                fit.and_then(Result::err).as_ref().map_or_else(|| "there were none".into(), Unfit::to_string);
            let made = Certificates::generate(&names, now)?;
            let written = match existing {
                Some(mut secret) => {
                    secret.data = Some(encoded(&made));
                    secrets.replace(name, &PostParams::default(), &secret).await
                }
                None => secrets.create(&PostParams::default(), &self.secret(&made)).await,
            };
            match written {
                Ok(_) => {
                    info!(secret = %name, %reason, "certificates made");
                    return Ok(made);
                }
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn secret(&self, certificates: &Certificates) -> Secret {
        Secret {
            metadata: ObjectMeta { name: Some(self.places.secret.clone()), ..ObjectMeta::default() },
            data: Some(encoded(certificates)),
            ..Secret::default()
        }
    }

    /// Puts the CA into every webhook of the configuration that does not have it.
    async fn publish(&self, ca: &str) -> Result<(), Error> {
        let name = &self.places.webhook_configuration;
        let failed = |source| Error::WebhookConfiguration { name: name.clone(), source };
        let configurations = Api::<MutatingWebhookConfiguration>::all(self.client.clone());
        let configuration = configurations.get_opt(name).await.map_err(failed)?;
        let Some(configuration) = configuration else {
            return Err(Error::NoWebhookConfiguration { name: name.clone() });
        };
        let bundle = ByteString(ca.as_bytes().to_vec());
        let operations: Vec<_> = configuration
            .webhooks
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(i, webhook)| {
                let is_right = webhook.client_config.ca_bundle.as_ref() == Some(&bundle);
                (!is_right).then(|| {
                    let path = format!("/webhooks/{i}/clientConfig/caBundle");
                    // `add` replaces as well, and works where there is no bundle yet.
                    PatchOperation::Add(AddOperation { path: pointer(&path), value: json!(bundle) })
                })
            })
            .collect();
        if operations.is_empty() {
            return Ok(());
        }
        // The indices are those of the version that was read.
        let version = PatchOperation::Test(TestOperation {
            path: pointer("/metadata/resourceVersion"),
            value: json!(configuration.metadata.resource_version),
        });
        let patch = Patch(std::iter::once(version).chain(operations).collect());
        let patch = kube::api::Patch::Json::<()>(patch);
        configurations.patch(name, &PatchParams::default(), &patch).await.map_err(failed)?;
        info!(configuration = %name, "caBundle set");
        Ok(())
    }
}

fn pointer(path: &str) -> json_patch::jsonptr::PointerBuf {
    path.parse().expect("written with a leading slash and without tildes")
}

fn decoded(secret: &Secret) -> Option<Certificates> {
    let text = |key: &str| {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        String::from_utf8(bytes.clone()).ok().filter(|text| !text.is_empty())
    };
    Some(Certificates {
        ca_certificate: text(key::CA_CERTIFICATE)?,
        ca_key: text(key::CA_KEY)?,
        certificate: text(key::CERTIFICATE)?,
        key: text(key::KEY)?,
    })
}

fn encoded(certificates: &Certificates) -> BTreeMap<String, ByteString> {
    let Certificates { ca_certificate, ca_key, certificate, key } = certificates;
    [
        (key::CA_CERTIFICATE, ca_certificate),
        (key::CA_KEY, ca_key),
        (key::CERTIFICATE, certificate),
        (key::KEY, key),
    ]
    .map(|(name, pem)| (name.to_owned(), ByteString(pem.as_bytes().to_vec())))
    .into()
}
