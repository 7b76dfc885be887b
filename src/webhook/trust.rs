//! How do the webhook's certificates get where they are needed: out of the Secret, into our listener and into
//! the webhook configurations?

use super::{
    configurations::{self, Configurations},
    own::{self, Memory, SharedSecret},
    serving_certificate::{self, ServingCertificate},
    x509,
};
use crate::plan::renewal::{Step, Waits};
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{
    Api, Client, Resource,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use rustls::{ClientConfig, pki_types::ServerName};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex as StdMutex},
    time::Duration,
};
use tokio::{net::TcpStream, sync::Mutex, time::timeout};
use tokio_rustls::TlsConnector;
use tracing::warn;

/// How long our own handshake may take: what the API server gives a whole review.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How often to look again at configurations that somebody else changes at the same time, before that counts
/// as a failure.
const TRIES: u32 = 3;
/// How soon to look again after a step: the next one may be due, but a mistake must not be repeated without
/// end.
const BETWEEN_STEPS: Duration = Duration::from_secs(1);

/// Where certificates go.
#[derive(Clone, Debug)]
pub struct Places {
    pub secret_namespace: String,
    pub secret: String,
    pub service_namespace: String,
    /// The webhook's Service.
    pub service: String,
    /// The MutatingWebhookConfiguration whose caBundle is kept.
    pub mutating_configuration: String,
    /// The ValidatingWebhookConfiguration whose caBundle is kept, if it is installed.
    pub validating_configuration: String,
}

/// Why the webhook is not trusted yet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Secret(#[from] own::Error),
    #[error(transparent)]
    Configurations(#[from] configurations::Error),
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
    secret: SharedSecret,
    waits: Waits,
    serving: Arc<ServingCertificate>,
    memory: Mutex<Memory>,
    /// The CAs that the API server trusts, as far as we know.
    trusted: StdMutex<Option<String>>,
}

impl Trust {
    pub fn new(client: Client, places: Places, waits: Waits, serving: Arc<ServingCertificate>) -> Self {
        let secret = SharedSecret::new(client.clone(), &places.secret_namespace, &places.secret);
        let (memory, trusted) = (Mutex::default(), StdMutex::default());
        Self { client, places, secret, waits, serving, memory, trusted }
    }

    /// Renews the certificates where that is due, serves them, and puts the CAs into the webhook
    /// configurations. Changes nothing that is right already, so it can be called at any time. Gives how long
    /// there is nothing to do if nothing changes.
    ///
    /// # Errors
    ///
    /// When the API server refuses something, or the webhook configuration is not installed. Whatever was
    /// done stays done.
    pub async fn establish(&self, now: Timestamp) -> Result<Duration, Error> {
        let mut memory = self.memory.lock().await;
        let mut tries = 1;
        loop {
            match self.step(&mut memory, now).await {
                Err(Error::Configurations(configurations::Error::Changed { .. })) if tries < TRIES => {
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    async fn step(&self, memory: &mut Memory, now: Timestamp) -> Result<Duration, Error> {
        // Read before the Secret, and patched only in this version: what is published is never older than
        // what another replica has published in between.
        let configurations = Configurations::read(&self.client, &self.places).await;
        let names = self.dns_names();
        let (certificates, step) = self.secret.advance(&names, None, memory, now, &self.waits).await?;
        self.serving.set(&certificates.certificate, &certificates.key)?;
        memory.holds(&certificates, &certificates.held(&names));
        let still = configurations?.publish(&certificates.ca_certificate).await?;
        memory.is_trusted(still);
        *self.trusted.lock().expect("no code panics while it holds this lock") =
            Some(certificates.ca_certificate);
        Ok(match step {
            Step::Keep(wait) => wait.max(BETWEEN_STEPS),
            Step::MakeAll(_) | Step::AddCa(_) | Step::SignLeaf(_) | Step::DropOldCas => BETWEEN_STEPS,
        })
    }

    /// Yields whenever it is time to look: the Secret or a webhook configuration has changed.
    pub fn changes(&self, watch_seconds: u32) -> impl Stream<Item = ()> + Send + use<> {
        let secrets = Api::namespaced(self.client.clone(), &self.places.secret_namespace);
        let mutating = Api::all(self.client.clone());
        let validating = Api::all(self.client.clone());
        stream::select_all([
            changes::<Secret>(secrets, &self.places.secret, watch_seconds),
            changes::<MutatingWebhookConfiguration>(
                mutating,
                &self.places.mutating_configuration,
                watch_seconds,
            ),
            changes::<ValidatingWebhookConfiguration>(
                validating,
                &self.places.validating_configuration,
                watch_seconds,
            ),
        ])
    }

    /// Whether the webhook at `address` is what the API server expects it to be: one that proves, by a CA in
    /// the webhook configuration, to be the Service.
    ///
    /// # Errors
    ///
    /// When it is not, or does not answer in time.
    pub async fn handshake(&self, address: SocketAddr) -> Result<(), Error> {
        let trusted = self.trusted.lock().expect("no code panics while it holds this lock").clone();
        let cas = trusted.ok_or(Error::NoCertificates)?;
        let name = self.service_name();
        let done = handshake(address, &name, &cas).await;
        done.map_err(|source| Error::Handshake { name, source })
    }

    /// What the API server calls the Service.
    fn service_name(&self) -> String {
        format!("{}.{}.svc", self.places.service, self.places.service_namespace)
    }

    /// `localhost` (as in KF) is for a webhook that runs beside the API server.
    fn dns_names(&self) -> Vec<String> {
        vec![self.service_name(), "localhost".to_owned()]
    }
}

/// Yields whenever the object of this name has changed. Only its metadata is asked for: what matters is read
/// when it is looked at.
fn changes<K>(
    api: Api<PartialObjectMeta<K>>,
    name: &str,
    watch_seconds: u32,
) -> stream::BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(watch_seconds);
    let kind = K::kind(&()).into_owned();
    let name = name.to_owned();
    watcher(api, config)
        .default_backoff()
        .filter_map(move |event| {
            let changed = match event {
                // The list's beginning and end say nothing of the object.
                Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
                Ok(_) => Some(()),
                Err(error) => {
                    warn!(kind, name, %error, "the watch is retried");
                    None
                }
            };
            std::future::ready(changed)
        })
        .boxed()
}

/// A TLS handshake with whoever listens on `address`, who has to be `name` by one of `cas` (PEM).
async fn handshake(address: SocketAddr, name: &str, cas: &str) -> io::Result<()> {
    let roots = x509::roots(cas).map_err(io::Error::other)?;
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
