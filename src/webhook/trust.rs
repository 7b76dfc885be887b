//! How do the webhook's certificates get where they are needed: into a Secret, into our listener, into the
//! webhook configuration?

use super::{
    certificates::{self, Certificates, Unfit, file},
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
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::json;
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tracing::info;

/// How long our own handshake may take: what the API server gives a whole review.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Where certificates go.
#[derive(Clone, Debug)]
pub struct Places {
    pub secret_namespace: String,
    pub secret: String,
    pub service_namespace: String,
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
    #[error("no certificates are there yet")]
    NoCertificates,
    #[error("the webhook does not answer a TLS handshake as {name}: {source}")]
    Handshake { name: String, source: io::Error },
}

/// Keeps the API server's trust in the webhook.
pub struct Trust {
    client: Client,
    places: Places,
    serving: Arc<ServingCertificate>,
    /// The CA that was published last.
    published: Mutex<Option<String>>,
}

impl Trust {
    pub fn new(client: Client, places: Places, serving: Arc<ServingCertificate>) -> Self {
        Self { client, places, serving, published: Mutex::default() }
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
        self.publish(&certificates.ca_certificate).await?;
        *self.published() = Some(certificates.ca_certificate);
        Ok(())
    }

    /// Whether the webhook at `address` is what the API server expects it to be: one that proves, by the CA
    /// in the webhook configuration, to be the Service.
    ///
    /// # Errors
    ///
    /// When it is not, or does not answer in time.
    pub async fn handshake(&self, address: SocketAddr) -> Result<(), Error> {
        let ca = self.published().clone().ok_or(Error::NoCertificates)?;
        let name = self.service_name();
        let done = handshake(address, &name, &ca).await;
        done.map_err(|source| Error::Handshake { name, source })
    }

    fn published(&self) -> MutexGuard<'_, Option<String>> {
        self.published.lock().expect("no code panics while it holds this lock")
    }

    /// What the API server calls the Service.
    fn service_name(&self) -> String {
        format!("{}.{}.svc", self.places.service, self.places.service_namespace)
    }

    /// `localhost` (as in KF) is for a webhook that runs beside the API server.
    fn dns_names(&self) -> Vec<String> {
        vec![self.service_name(), "localhost".to_owned()]
    }

    async fn certificates(&self, now: Timestamp) -> Result<Certificates, Error> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.places.secret_namespace);
        let name = &self.places.secret;
        let failed =
            |source| Error::Secret { secret: format!("{}/{name}", self.places.secret_namespace), source };
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

/// A TLS handshake with whoever listens on `address`, who has to be `name` by `ca` (PEM).
async fn handshake(address: SocketAddr, name: &str, ca: &str) -> io::Result<()> {
    let roots = certificates::roots(ca).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    timeout(HANDSHAKE, connect).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(())
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
        ca_certificate: text(file::CA_CERTIFICATE)?,
        ca_key: text(file::CA_KEY)?,
        certificate: text(file::CERTIFICATE)?,
        key: text(file::KEY)?,
    })
}

fn encoded(certificates: &Certificates) -> BTreeMap<String, ByteString> {
    let files = certificates.clone().files().into_iter();
    files.map(|(name, pem)| (name.to_owned(), ByteString(pem.into_bytes()))).collect()
}
