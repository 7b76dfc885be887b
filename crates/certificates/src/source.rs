//! Reads the certificates that the webhook presents, and checks those that are not the operator's own: from cert-manager's
//! Secret or from mounted files.

use super::{
    generated::{Certificates, text},
    renewal::Waits,
    serving::certified_key,
    x509,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use std::{error::Error as _, fs, io, path::PathBuf};

/// Where the webhook's certificates come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The operator creates the certificates itself.
    Own(Waits),
    /// cert-manager writes the certificates into the Secret, and its CA injector keeps `caBundle` up to date.
    CertManager,
    /// The admin puts the certificates into the files of a mounted folder.
    Files(Files),
}

/// The files of a mounted folder.
#[derive(Clone, Debug)]
pub struct Files {
    pub directory: PathBuf,
    /// The name of the certificate's file in the folder; `key` is the name of its key's file.
    pub certificate: String,
    pub key: String,
}

/// The name of the file with the CA's certificate in a mounted folder, and of the entry with the CA's certificate in
/// cert-manager's Secret. If the file exists, the operator writes its content into every `caBundle`.
const CA: &str = "ca.crt";

impl Certificates {
    /// Reads `secret`, in the operator's own format or in cert-manager's; `None` if it has no certificate. After a
    /// change from one to the other, a Secret has both: then cert-manager's certificates are returned if they are
    /// trusted through `cas` (PEM), else the operator's own. Other parts that are missing are empty.
    pub fn in_either_format(secret: &Secret, cas: &str) -> Option<Self> {
        let or_empty = |key: &str| text(secret, key).unwrap_or_default();
        let of_cert_manager = text(secret, "tls.crt").map(|certificate| Self {
            ca_certificate: or_empty(CA),
            ca_key: String::new(),
            certificate,
            key: or_empty("tls.key"),
        });
        match (Self::of(secret), of_cert_manager) {
            (Some(_), Some(other)) if other.are_trusted_through(cas) => Some(other),
            (own, other) => own.or(other),
        }
    }

    /// Reads the certificates that cert-manager has written into `secret`. `title` is its name in messages.
    ///
    /// # Errors
    ///
    /// If the Secret, a certificate or the key is missing: a sentence.
    pub(super) fn in_secret(title: &str, secret: Option<&Secret>) -> Result<Self, String> {
        let Some(secret) = secret else {
            return Err(format!(
                "{title} does not exist: cert-manager makes it from a Certificate (certs/README.md); without \
                 --enable-cert-manager the operator makes its own"
            ));
        };
        let missing = |key: &str| {
            format!("{title} has no {key}: cert-manager has not filled it yet, or somebody else has made it")
        };
        let text = |key: &str| text(secret, key).ok_or_else(|| missing(key));
        let (certificate, ca_certificate) = (text("tls.crt")?, text(CA)?);
        Ok(Self { ca_certificate, ca_key: String::new(), certificate, key: text("tls.key")? })
    }

    /// Reads the certificates in `files`. The CA's file may be missing.
    pub(super) fn in_files(files: &Files) -> Result<Self, String> {
        let read = |name: &str, is_optional: bool| {
            let path = files.directory.join(name);
            match fs::read_to_string(&path) {
                Err(error) if is_optional && error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
                read => read.map_err(|error| {
                    format!("--webhook-cert-dir: {}: {error}: mount a volume that has it", path.display())
                }),
            }
        };
        let (ca_certificate, certificate) = (read(CA, true)?, read(&files.certificate, false)?);
        Ok(Self { ca_certificate, ca_key: String::new(), certificate, key: read(&files.key, false)? })
    }

    /// Checks that the API server can accept these certificates from the host `service_name`. The caller puts the place
    /// of the leaf in front of the error.
    pub(super) fn check(&self, service_name: &str, now: Timestamp) -> Result<(), String> {
        let chain = x509::certificates(&self.certificate).map_err(|error| error.to_string())?;
        let leaf = x509::description(&chain[0]).map_err(|error| error.to_string())?;
        certified_key(chain.clone(), &self.key).map_err(|error| {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            format!("the key beside it cannot be used with it: {why}")
        })?;
        if !leaf.validity.includes(now) {
            let (from, until) = (leaf.validity.from, leaf.validity.until);
            return Err(format!("it is valid from {from} until {until}: have it renewed"));
        }
        if !x509::lacks(&chain[0], &[service_name.to_owned()]).is_empty() {
            return Err(format!("it is for {}: have it made for {service_name}", leaf.names.join(", ")));
        }
        if !self.ca_certificate.is_empty() && !self.are_trusted_through(&self.ca_certificate) {
            return Err(format!("it is not signed by the CA in {CA}: replace all of them together"));
        }
        Ok(())
    }

    /// Whether a client that trusts `cas` (PEM) trusts the leaf.
    pub(super) fn are_trusted_through(&self, cas: &str) -> bool {
        let read = |pem| x509::certificates(pem).unwrap_or_default();
        x509::issuer(&read(&self.certificate), &read(cas)).is_some()
    }
}

impl Files {
    /// Returns the path of the certificate's file, for messages.
    pub(super) fn place(&self) -> String {
        self.directory.join(&self.certificate).display().to_string()
    }

    /// Whether the folder has a certificate or a key.
    pub fn exist(&self) -> bool {
        [&self.certificate, &self.key].iter().any(|name| self.directory.join(name).exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;
    use std::collections::BTreeMap;

    /// In an earlier version, the operator's own certificates were shown after a change to cert-manager.
    #[test]
    fn the_trusted_certificates_of_a_secret_in_both_formats_are_read() {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let [own, other] = [(); 2].map(|()| Certificates::generate(&["x.svc".to_owned()], now).unwrap());
        let mut files: BTreeMap<&str, &String> = own.files().collect();
        files.extend([(CA, &other.ca_certificate), ("tls.crt", &other.certificate), ("tls.key", &other.key)]);
        let data =
            files.into_iter().map(|(name, pem)| (name.to_owned(), ByteString(pem.clone().into_bytes())));
        let secret = Secret { data: Some(data.collect()), ..Secret::default() };
        for (cas, used) in
            [(&own.ca_certificate, &own), (&other.ca_certificate, &other), (&String::new(), &own)]
        {
            let read = Certificates::in_either_format(&secret, cas).unwrap();
            assert!(read.certificate == used.certificate && read.key == used.key);
        }
    }
}
