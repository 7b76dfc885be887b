//! Distributes the webhook's certificates: from the Secret or the mounted files to the listener and to the webhook
//! configurations.

use crate::{
    Certificates, Configurations, Error, Files, Hook, Memory, Places, ServingCertificate, SharedSecret,
    Source,
    expiry::Expiry,
    registration::Registration,
    renewal::{Step, Waits},
    x509,
};
use api::Lenient;
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
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::Value;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    sync::Mutex as AsyncMutex,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;
use tracing::warn;
use watches::Watches;

/// How long the operator's own TLS handshake with the webhook may take: as long as the API server waits for a whole
/// review.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How many times a step is tried if the webhook configurations are changed by another process at the same time. After
/// that the step fails.
const TRIES: u32 = 3;
/// The shortest time that [`Trust::establish`] returns. After a step the next step may be due at once, but a step that
/// is taken by mistake must not be repeated without a pause.
const BETWEEN_STEPS: Duration = Duration::from_secs(1);

/// The time between two reads of mounted files. A read costs a few system calls.
const BETWEEN_READS: Duration = Duration::from_secs(2);

/// Ensures that the webhook serves a valid certificate which the API server trusts.
pub struct Trust {
    client: Client,
    places: Places,
    secret: SharedSecret,
    source: Source,
    serving: Arc<ServingCertificate>,
    expiry: Expiry,
    registration: Registration,
    memory: AsyncMutex<Memory>,
    /// The CAs (PEM) that the API server trusts, as far as this process knows.
    trusted: Mutex<Option<String>>,
}

impl Trust {
    /// Creates the keeper of the certificates in `places`, which come from `source` and are served by `serving`. Registers
    /// metrics in `registry`: until when the certificates are valid, and the number of differences between the webhook
    /// configurations and those that are `expected`.
    pub fn new(
        client: Client,
        places: Places,
        source: Source,
        serving: Arc<ServingCertificate>,
        expected: Vec<Value>,
        registry: &mut Registry,
    ) -> Self {
        let registration = Registration::new(expected, registry);
        let expiry = Expiry::new(registry);
        let secret = SharedSecret::new(client.clone(), &places);
        let (memory, trusted) = (AsyncMutex::default(), Mutex::default());
        Self { client, places, secret, source, serving, expiry, registration, memory, trusted }
    }

    /// Renews the certificates if a renewal is due, serves the certificates, and writes the CAs into the webhook
    /// configurations. Changes nothing that is correct already, so the function can be called at any time. Returns the
    /// time until the next call is needed if nothing changes before.
    ///
    /// # Errors
    ///
    /// If the API server refuses a request, the webhook configuration is not installed, or the certificates cannot be
    /// used or are not trusted yet. Steps that were completed before the error are not undone.
    pub async fn establish(&self, now: Timestamp) -> Result<Duration, Error> {
        let mut memory = self.memory.lock().await;
        let mut tries = 1;
        loop {
            match self.step(&mut memory, now).await {
                Err(Error::Changed { .. }) if tries < TRIES => tries += 1,
                result => return result,
            }
        }
    }

    async fn step(&self, memory: &mut Memory, now: Timestamp) -> Result<Duration, Error> {
        // The configurations are read before the certificates and patched only in the version that was read. So this
        // replica never overwrites the CAs of another replica with older ones.
        let configurations = Configurations::read(&self.client, &self.places).await;
        if let Ok(configurations) = &configurations {
            self.registration.compare(configurations);
        }
        let (place, found) = match &self.source {
            Source::Own(waits) => return self.keep_own(configurations, waits, memory, now).await,
            Source::CertManager => {
                let title = &self.secret.title;
                (title.clone(), Certificates::in_secret(title, self.secret.read().await?.as_ref()))
            }
            Source::Files(files) => (files.place(), Certificates::in_files(files)),
        };
        let found = found.map_err(Error::Unfit)?;
        self.follow(configurations?, &place, found, memory, now).await
    }

    async fn keep_own(
        &self,
        configurations: Result<Configurations, Error>,
        waits: &Waits,
        memory: &mut Memory,
        now: Timestamp,
    ) -> Result<Duration, Error> {
        // `localhost` (as in Kubeflow's operator) is for a webhook that runs on the same machine as the API server.
        let names = [self.service_name(), "localhost".to_owned()];
        let (certificates, step) = self.secret.advance(&names, None, memory, now, waits).await?;
        self.serving.set(&certificates.certificate, &certificates.key)?;
        let held = certificates.held(&names);
        memory.holds(&certificates, &held);
        self.expiry.shown(&held, now)?;
        let still = configurations?.publish(&certificates.ca_certificate).await?;
        memory.record_trust(still);
        *self.trusted.lock() = Some(certificates.ca_certificate);
        Ok(match step {
            Step::Keep(wait) => wait.max(BETWEEN_STEPS),
            Step::MakeAll(_) | Step::AddCa(_) | Step::SignLeaf(_) | Step::DropOldCas => BETWEEN_STEPS,
        })
    }

    /// Serves certificates that the operator has not created: `found`, in `place`. The CAs beside mounted files are
    /// written into the webhook configurations; otherwise another component, such as cert-manager's CA injector, has to
    /// write a `caBundle` that trusts the certificate. A certificate that is not trusted yet does not replace one that
    /// still is trusted.
    async fn follow(
        &self,
        configurations: Configurations,
        place: &str,
        found: Certificates,
        memory: &mut Memory,
        now: Timestamp,
    ) -> Result<Duration, Error> {
        if let Err(why) = found.check(&self.service_name(), now) {
            if let Some(used) = &memory.last {
                self.expiry.shown(&used.held(&[]), now)?;
            }
            return Err(Error::Unfit(format!("{place}: {why}")));
        }
        let hooks = configurations.hooks();
        let trusts = |hook: &&Hook| found.are_trusted_through(hook.ca_bundle.as_deref().unwrap_or_default());
        let cas = found.ca_certificate.clone();
        let (trusted, distrusting) = if matches!(self.source, Source::Files(_)) && !cas.is_empty() {
            configurations.publish(&cas).await?;
            (cas, None)
        } else {
            let bundle = hooks.first().and_then(|hook| hook.ca_bundle.clone());
            (bundle.unwrap_or_default(), hooks.iter().find(|hook| !trusts(hook)))
        };
        // If the new certificate is not trusted yet and the old one is still trusted, the old one stays in use.
        let stays = |used: &Certificates| distrusting.is_some() && used.are_trusted_through(&trusted);
        let used = memory.last.clone().filter(stays).unwrap_or(found);
        self.serving.set(&used.certificate, &used.key)?;
        *self.trusted.lock() = Some(trusted.clone());
        let used = memory.last.insert(Certificates { ca_certificate: trusted, ..used });
        let expiry = self.expiry.shown(&used.held(&[]), now);
        match distrusting {
            Some(hook) => Err(Error::Unfit(format!(
                "{} does not trust the webhook's certificate: annotate it with cert-manager.io/inject-ca-from, or put the \
                 CA beside the certificate as ca.crt (certs/README.md)",
                hook.configuration
            ))),
            None => expiry.map(|()| Duration::MAX),
        }
    }

    /// Yields whenever the certificates or a webhook configuration have changed, so that [`establish`](Self::establish)
    /// should be called. Each watch is recorded in `watches`.
    pub fn changes(&self, watches: &Watches, seconds: u32) -> impl Stream<Item = ()> + Send + use<> {
        let (client, places) = (&self.client, &self.places);
        let certificates = match &self.source {
            Source::Own(_) | Source::CertManager => {
                let namespace = &places.secret_namespace;
                let client = watches.begin(client, Secret::url_path(&(), Some(namespace)));
                changes::<Secret>(Api::namespaced(client, namespace), &places.secret, seconds)
            }
            Source::Files(files) => changes_of(files.clone()),
        };
        let (mutating, validating) = (&places.mutating_configuration, &places.validating_configuration);
        let watched = watches.begin(client, MutatingWebhookConfiguration::url_path(&(), None));
        let mutating = changes::<MutatingWebhookConfiguration>(Api::all(watched), mutating, seconds);
        let watched = watches.begin(client, ValidatingWebhookConfiguration::url_path(&(), None));
        let validating = changes::<ValidatingWebhookConfiguration>(Api::all(watched), validating, seconds);
        stream::select_all([certificates, mutating, validating])
    }

    /// Checks with a TLS handshake that the API server can trust the webhook at `address`: the webhook's certificate
    /// has to be valid for the Service's name and signed by a CA in the webhook configuration.
    ///
    /// # Errors
    ///
    /// If the certificate is not trusted, or the webhook does not answer in time.
    pub async fn handshake(&self, address: SocketAddr) -> Result<(), Error> {
        let trusted = self.trusted.lock().clone();
        let cas = trusted.ok_or_else(|| Error::Unfit("no certificates are there yet".to_owned()))?;
        let name = self.service_name();
        let failed =
            |error: io::Error| format!("the webhook does not answer a TLS handshake as {name}: {error}");
        handshake(address, &name, &cas).await.map_err(|error| Error::Unfit(failed(error)))
    }

    /// Returns the host name under which the API server calls the Service.
    fn service_name(&self) -> String {
        format!("{}.{}.svc", self.places.service, self.places.service_namespace)
    }
}

/// Yields whenever the files have changed. The files are read periodically: a mounted volume changes through symbolic
/// links, and the operator gets no notification of that.
fn changes_of(files: Files) -> stream::BoxStream<'static, ()> {
    let begin = Certificates::in_files(&files);
    let changes = stream::unfold((files, begin), |(files, before)| async move {
        loop {
            sleep(BETWEEN_READS).await;
            let now = Certificates::in_files(&files);
            if now != before {
                return Some(((), (files, now)));
            }
        }
    });
    changes.boxed()
}

/// Yields whenever the object with this name has changed. The watch asks for the object's metadata only: the content is
/// read later, by [`Trust::establish`].
fn changes<K>(
    api: Api<Lenient<PartialObjectMeta<K>>>,
    name: &str,
    seconds: u32,
) -> stream::BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(seconds);
    let (kind, name) = (K::kind(&()).into_owned(), name.to_owned());
    let changed = watcher(api, config).default_backoff().filter_map(move |event| {
        if let Err(error) = &event {
            warn!(kind, name, %error, "the watch is retried");
        }
        // The beginning and the end of a list are no changes of the object.
        let is_change = !matches!(event, Err(_) | Ok(watcher::Event::Init | watcher::Event::InitDone));
        std::future::ready(is_change.then_some(()))
    });
    changed.boxed()
}

/// Performs a TLS handshake with the server at `address`, whose certificate has to be valid for `name` and signed by
/// one of `cas` (PEM).
async fn handshake(address: SocketAddr, name: &str, cas: &str) -> io::Result<()> {
    let roots = x509::roots(cas).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    timeout(HANDSHAKE, connect).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(())
}
