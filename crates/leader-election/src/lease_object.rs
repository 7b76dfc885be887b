//! Reads and writes a Lease. A write fails if another client has written since.

use api::Lenient;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client, api::PostParams};
use std::{fmt::Display, time::Duration};
use tokio::time::timeout;

/// A Lease in the API server, by its name.
pub struct LeaseObject {
    leases: Api<Lenient<Lease>>,
    name: String,
    /// How long each request may take.
    patience: Duration,
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
    /// When the API server refuses the request or does not answer in time, or when the Lease cannot be decoded: a sentence.
    pub async fn read(&self) -> Result<Option<Lease>, String> {
        let found = self.in_time(self.leases.get_opt(&self.name)).await?;
        self.readable(found.map_err(|error| self.failed(error))?)
    }

    /// Writes `spec` over `found`, or creates the Lease. Returns the Lease as it is stored; none if another client has
    /// written since.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`].
    pub async fn write(&self, found: Option<Lease>, spec: LeaseSpec) -> Result<Option<Lease>, String> {
        let is_new = found.is_none();
        let mut lease = Lease { spec: Some(spec), ..found.unwrap_or_default() };
        lease.metadata.name = Some(self.name.clone());
        let (lease, parameters) = (Lenient(Ok(lease)), PostParams::default());
        let written = if is_new {
            self.in_time(self.leases.create(&parameters, &lease)).await?
        } else {
            self.in_time(self.leases.replace(&self.name, &parameters, &lease)).await?
        };
        match written {
            Err(kube::Error::Api(status))
                // A creation is answered with 404 if the namespace does not exist, which is an error.
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() && !is_new =>
            {
                Ok(None)
            }
            written => self.readable(Some(written.map_err(|error| self.failed(error))?)),
        }
    }

    fn readable(&self, lease: Option<Lenient<Lease>>) -> Result<Option<Lease>, String> {
        let lease = lease.map(|lease| lease.0).transpose();
        lease.map_err(|invalid| format!("Lease {} cannot be read: {}; delete it", self.name, invalid.error))
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<kube::Result<T>, String> {
        timeout(self.patience, call).await.map_err(|_| self.failed("no answer in time"))
    }

    fn failed(&self, why: impl Display) -> String {
        format!("Lease {}: {why}", self.name)
    }
}
