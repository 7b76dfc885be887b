//! Creates and renews the operator's own certificates in the Secret that all replicas share. The first replica that
//! takes a step writes the Secret, and the other replicas use its content.

use crate::{
    Certificates, Error, Places,
    renewal::{self, Held, Seen, Step, Waits, Wish},
};
use api::Lenient;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams};
use tokio::time::Instant;
use tracing::info;

/// The Secret with the certificates, which all replicas read and write.
pub struct SharedSecret {
    api: Api<Lenient<Secret>>,
    name: String,
    /// Kind, namespace and name, as messages show them.
    pub title: String,
}

/// What this process remembers of the certificates.
#[derive(Default)]
pub struct Memory {
    /// The certificates in use: the last known content of the Secret, or those from another [`Source`](crate::Source).
    pub(super) last: Option<Certificates>,
    /// Since when the newest CA has been in every webhook configuration.
    trusted_since: Option<Instant>,
    /// Since when the leaf has been one that the newest CA has signed.
    signs_since: Option<Instant>,
}

impl SharedSecret {
    pub fn new(client: Client, places: &Places) -> Self {
        let (namespace, name) = (&places.secret_namespace, places.secret.clone());
        let title = format!("Secret {namespace}/{name}");
        Self { api: Api::namespaced(client, namespace), name, title }
    }

    /// Reads the Secret; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If the API server refuses or does not answer, or the Secret cannot be read.
    pub async fn read(&self) -> Result<Option<Secret>, Error> {
        let found = self.api.get_opt(&self.name).await.map_err(|source| Error::api(&self.title, source))?;
        let unfit = |error: String| Error::Unfit(format!("{} cannot be read: {error}", self.title));
        found.map(|secret| secret.0).transpose().map_err(|invalid| unfit(invalid.error))
    }

    /// Takes the next step of a renewal, if a step is due. Returns the content of the Secret after the step, and the
    /// step that was taken.
    ///
    /// # Errors
    ///
    /// If the API server refuses, or if the Secret cannot be read or certificates cannot be created.
    pub async fn advance(
        &self,
        dns_names: &[String],
        wish: Option<Wish>,
        memory: &Memory,
        now: Timestamp,
        waits: &Waits,
    ) -> Result<(Certificates, Step), Error> {
        // Repeated if another replica has written the Secret first: this replica then uses that replica's certificates.
        loop {
            let existing = self.read().await?;
            let (certificates, wish) = match (existing.as_ref().and_then(Certificates::of), &memory.last) {
                (Some(found), _) => (Some(found), wish),
                // An admin deletes the Secret to get new certificates. The old ones are still served and trusted, so a
                // new CA is added to them as in a rotation, and no review is refused in the meantime.
                (None, Some(remembered)) => (Some(remembered.clone()), Some(Wish::Ca)),
                (None, None) => (None, None),
            };
            let held = certificates.as_ref().map(|certificates| certificates.held(dns_names));
            let seen = certificates.as_ref().map(|certificates| memory.seen(certificates));
            let step = renewal::next(held.as_ref(), wish, seen.unwrap_or_default(), now, waits);
            let made = match (&step, certificates) {
                (Step::Keep(_), Some(certificates)) => return Ok((certificates, step)),
                (Step::AddCa(_), Some(certificates)) => certificates.with_new_ca(dns_names, now)?,
                (Step::SignLeaf(_), Some(certificates)) => certificates.with_new_leaf(dns_names, now)?,
                (Step::DropOldCas, Some(certificates)) => certificates.with_newest_ca_alone(),
                (Step::MakeAll(_), _) | (_, None) => Certificates::generate(dns_names, now)?,
            };
            let is_new = existing.is_none();
            let mut secret = existing.unwrap_or_default();
            secret.metadata.name = Some(self.name.clone());
            let data =
                made.files().map(|(name, pem)| (name.to_owned(), ByteString(pem.clone().into_bytes())));
            secret.data.get_or_insert_default().extend(data);
            let (secret, parameters) = (Lenient(Ok(secret)), PostParams::default());
            let written = if is_new {
                self.api.create(&parameters, &secret).await
            } else {
                self.api.replace(&self.name, &parameters, &secret).await
            };
            match written {
                Ok(_) => {
                    log(&self.name, &step);
                    return Ok((made, step));
                }
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
                Err(source) => return Err(Error::api(&self.title, source)),
            }
        }
    }
}

fn log(secret: &str, step: &Step) {
    match step {
        Step::Keep(_) => {}
        Step::MakeAll(reason) => info!(secret, %reason, "certificates made"),
        Step::AddCa(reason) => {
            info!(secret, %reason, "new CA made; it signs once the API server trusts it");
        }
        Step::SignLeaf(reason) => info!(secret, %reason, "new leaf made"),
        Step::DropOldCas => info!(secret, "the old CA is not needed any more, and not trusted any more"),
    }
}

impl Memory {
    fn seen(&self, certificates: &Certificates) -> Seen {
        if self.newest_ca() != Some(certificates.newest_ca()) {
            return Seen::default();
        }
        let age = |since: Option<Instant>| since.map(|since| since.elapsed());
        Seen { trusted_for: age(self.trusted_since), signs_for: age(self.signs_since) }
    }

    /// Records that the Secret now contains `certificates`, whose properties are `held`.
    pub(super) fn holds(&mut self, certificates: &Certificates, held: &Held) {
        if self.newest_ca() != Some(certificates.newest_ca()) {
            (self.trusted_since, self.signs_since) = (None, None);
        }
        if held.leaf.as_ref().and_then(|leaf| leaf.issuer) == Some(0) {
            self.signs_since.get_or_insert_with(Instant::now);
        }
        self.last = Some(certificates.clone());
    }

    /// Records that the newest CA is now in every webhook configuration. `still` is whether the CA was in all of them
    /// already; if not, the trusted time starts again.
    pub(super) fn record_trust(&mut self, still: bool) {
        let since = self.trusted_since.filter(|_| still);
        self.trusted_since = Some(since.unwrap_or_else(Instant::now));
    }

    fn newest_ca(&self) -> Option<&str> {
        self.last.as_ref().map(Certificates::newest_ca)
    }
}
