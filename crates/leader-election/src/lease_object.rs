//! Reads and writes a Lease. A write fails if another client has written since.

use api::Lenient;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use std::time::Duration;
use tokio::time::timeout;

/// A Lease in the API server, by its name.
pub struct LeaseObject {
    leases: Api<Lenient<Lease>>,
    name: String,
    /// How long each request may take.
    patience: Duration,
}

/// Why a Lease cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Lease {name}: {source}")]
    Api { name: String, source: kube::Error },
    #[error("Lease {name} cannot be read: {error}; delete it")]
    Unreadable { name: String, error: String },
    #[error("Lease {name}: no answer in time")]
    TookTooLong { name: String },
}

impl LeaseObject {
    /// Returns the Lease `name` in `namespace`; each request may take as long as `patience`.
    pub fn new(client: Client, (namespace, name): (&str, &str), patience: Duration) -> Self {
        Self { leases: Api::namespaced(client, namespace), name: name.to_owned(), patience }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the Lease as it is now; none if it does not exist.
    ///
    /// # Errors
    ///
    /// When the API server refuses the request or does not answer in time, or when the Lease cannot be decoded.
    pub async fn read(&self) -> Result<Option<Lease>, Error> {
        let found = self.in_time(self.leases.get_opt(&self.name)).await?;
        found.map(|lease| self.readable(lease)).transpose()
    }

    /// Writes `spec` over `found`, or creates the Lease. Returns the Lease as it is stored; none if another client has
    /// written since.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub async fn write(&self, found: Option<Lease>, spec: LeaseSpec) -> Result<Option<Lease>, Error> {
        let is_new = found.is_none();
        let written = match found {
            Some(found) => {
                let lease = Lenient(Ok(Lease { spec: Some(spec), ..found }));
                self.in_time(self.leases.replace(&self.name, &PostParams::default(), &lease)).await
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let lease = Lenient(Ok(Lease { metadata, spec: Some(spec) }));
                self.in_time(self.leases.create(&PostParams::default(), &lease)).await
            }
        };
        match written {
            Ok(lease) => self.readable(lease).map(Some),
            Err(Error::Api { source: kube::Error::Api(status), .. })
                // A creation is answered with 404 if the namespace does not exist, which is an error.
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() && !is_new =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn readable(&self, lease: Lenient<Lease>) -> Result<Lease, Error> {
        lease.0.map_err(|invalid| Error::Unreadable { name: self.name.clone(), error: invalid.error })
    }

    async fn in_time<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        let name = || self.name.clone();
        let answer = timeout(self.patience, call).await;
        answer
            .map_err(|_| Error::TookTooLong { name: name() })?
            .map_err(|source| Error::Api { name: name(), source })
    }
}
