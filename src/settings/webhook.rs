//! The flags of the webhook and its certificates.

use super::{InstallationName, duration, values::listed};
use anyhow::{anyhow, ensure};
use certificates::{Files, Places, Source, renewal::Waits};
use clap::Args;
use rustix::fs::{Access, access};
use rustls::{
    SupportedCipherSuite,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use webhook::{Closing, Tls, TlsVersion, cipher_suite};

/// The webhook, its certificates and the objects in which they are trusted.
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhook")]
pub struct WebhookSettings {
    /// The port of the admission webhook
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    pub webhook_port: u16,

    #[command(flatten)]
    pub objects: WebhookObjects,

    /// The webhook's Service [default: INSTALLATION-webhook-svc]
    #[arg(long, value_name = "NAME")]
    pub webhook_svc_name: Option<String>,

    /// The namespace of that Service [default: that of the Secret]
    #[arg(long, value_name = "NAMESPACE")]
    pub webhook_svc_namespace: Option<String>,

    /// Whether cert-manager creates the certificates: into the Secret, as ca.crt, tls.crt and tls.key, and into
    /// caBundle
    #[arg(long)]
    pub enable_cert_manager: bool,

    /// The directory with a mounted certificate and key from another source, and their CA (ca.crt) for caBundle;
    /// changed files are read again [default: the operator creates its own, also if the directory is writable and has
    /// neither file when the operator starts]
    #[arg(long, value_name = "DIRECTORY")]
    pub webhook_cert_dir: Option<PathBuf>,

    /// The file of the certificate in --webhook-cert-dir
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    pub webhook_cert_name: String,

    /// The file of the key in --webhook-cert-dir
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    pub webhook_key_name: String,

    /// The oldest version of TLS that the webhook accepts
    #[arg(long, value_name = "VERSION", value_enum, default_value = "VersionTLS12")]
    pub webhook_tls_min_version: TlsVersion,

    /// The cipher suites that the webhook accepts, by their Go or IANA names; of a version of TLS of which none is
    /// listed, all are accepted [default: all]
    #[arg(long, value_name = "SUITE", value_delimiter = ',', value_parser = listed(cipher_suite))]
    pub webhook_tls_cipher_suites: Vec<Option<SupportedCipherSuite>>,

    /// The CAs (PEM) of the client certificates by which the webhook recognises API servers; read at the start. Only
    /// API servers get the numbers of quotas; with this flag, quotas and permissions are looked up for no other client
    #[arg(long, value_name = "FILE")]
    pub webhook_client_ca: Option<PathBuf>,

    /// How long a new CA is in the webhook configurations before a certificate is signed by it: long enough that every
    /// API server has read them
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub webhook_ca_settle_time: Duration,

    /// How long an old CA is still trusted after its last certificate was replaced: long enough that every replica has
    /// read the new one
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub webhook_ca_overlap: Duration,

    /// The maximum age of a connection to the webhook: then the API server opens a new one, and several replicas share
    /// the load again; 0s for no maximum
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub webhook_max_connection_age: Duration,

    /// How long the webhook still accepts new connections after the operator was asked to stop: long enough that every
    /// node routes to another replica
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub webhook_shutdown_delay: Duration,
}

/// The objects in which the certificates are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhook")]
pub struct WebhookObjects {
    /// The Secret that holds the webhook's CA and certificate; created if it does not exist [default:
    /// INSTALLATION-webhook-certs]
    #[arg(long, value_name = "NAME")]
    pub webhook_secret_name: Option<String>,

    /// The namespace of that Secret
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "spark-operator")]
    pub webhook_secret_namespace: String,

    /// The MutatingWebhookConfiguration whose caBundle the operator keeps [default: INSTALLATION-webhook]
    #[arg(long, value_name = "NAME")]
    pub mutating_webhook_name: Option<String>,

    /// The ValidatingWebhookConfiguration whose caBundle the operator keeps, if there is one
    /// [default: INSTALLATION-webhook]
    #[arg(long, value_name = "NAME")]
    pub validating_webhook_name: Option<String>,
}

impl WebhookObjects {
    /// Returns the names and namespaces of these objects, and what the Service is called unless other flags name it.
    pub fn places(&self, installation: &InstallationName) -> Places {
        let name = |given: &Option<String>, suffix| given.clone().unwrap_or_else(|| installation.of(suffix));
        Places {
            secret_namespace: self.webhook_secret_namespace.clone(),
            secret: name(&self.webhook_secret_name, "webhook-certs"),
            service_namespace: self.webhook_secret_namespace.clone(),
            service: installation.of("webhook-svc"),
            mutating_configuration: name(&self.mutating_webhook_name, "webhook"),
            validating_configuration: name(&self.validating_webhook_name, "webhook"),
        }
    }
}

impl WebhookSettings {
    /// Returns the names and namespaces of the objects in which the webhook's certificates are kept.
    pub fn places(&self, installation: &InstallationName) -> Places {
        let places = self.objects.places(installation);
        Places {
            service_namespace: self.webhook_svc_namespace.clone().unwrap_or(places.service_namespace),
            service: self.webhook_svc_name.clone().unwrap_or(places.service),
            ..places
        }
    }

    /// Returns the source of the certificates. Kubeflow's operator writes the certificates of the Secret, its own or
    /// those of cert-manager, into the directory: so an empty directory that can be written is not the source. Volumes
    /// of Secrets and of CSI drivers cannot be written, and may be filled later.
    pub fn source(&self) -> Source {
        if self.enable_cert_manager {
            return Source::CertManager;
        }
        let (certificate, key) = (self.webhook_cert_name.clone(), self.webhook_key_name.clone());
        let files = self.webhook_cert_dir.clone().map(|directory| Files { directory, certificate, key });
        let (settle, overlap) = (self.webhook_ca_settle_time, self.webhook_ca_overlap);
        let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        let is_filled_by_others = |files: &Files| files.exist() || access(&files.directory, all).is_err();
        files.filter(is_filled_by_others).map_or(Source::Own(Waits { settle, overlap }), Source::Files)
    }

    /// Returns a warning if `source` is not the directory that the admin has set.
    pub fn unused_directory(&self, source: &Source) -> Option<&'static str> {
        let why = match source {
            Source::Own(_) => "--webhook-cert-dir has no files: the operator keeps its own in the Secret",
            Source::CertManager => {
                "--webhook-cert-dir has no effect: --enable-cert-manager has its certificates in the Secret"
            }
            Source::Files(_) => return None,
        };
        self.webhook_cert_dir.is_some().then_some(why)
    }

    /// Returns the limits that decide when the webhook's connections are closed.
    pub fn closing(&self) -> Closing {
        let max_age = Some(self.webhook_max_connection_age).filter(|age| !age.is_zero());
        Closing { max_age, delay: self.webhook_shutdown_delay }
    }

    /// Returns the TLS settings of the webhook.
    ///
    /// # Errors
    ///
    /// When the CAs of API servers cannot be read.
    pub fn tls(&self) -> anyhow::Result<Tls> {
        let client_cas = self.webhook_client_ca.as_deref().map(client_cas).transpose()?.unwrap_or_default();
        let cipher_suites = self.webhook_tls_cipher_suites.iter().flatten().copied().collect();
        Ok(Tls { min_version: self.webhook_tls_min_version, cipher_suites, client_cas })
    }
}

fn client_cas(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let flag = format!("--webhook-client-ca: {}", file.display());
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let cas = read.map_err(|error| anyhow!("{flag}: {error}"))?;
    ensure!(!cas.is_empty(), "{flag} has no certificate in PEM");
    Ok(cas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::run;

    #[test]
    fn a_directory_is_the_source_of_certificates_unless_empty_and_writable() {
        let source = |directory: &str, flags: &[&str]| {
            let directory = format!("--webhook-cert-dir={directory}");
            let settings = run(&[&[&*directory][..], flags].concat());
            let source = settings.webhook.source();
            // A directory that is not used causes a warning.
            assert_eq!(
                settings.webhook.unused_directory(&source).is_none(),
                matches!(source, Source::Files(_))
            );
            source
        };
        // The folder of the repository stands for a mounted one.
        assert!(matches!(source("certs", &["--webhook-cert-name=README.md"]), Source::Files(_)));
        assert!(matches!(source("certs", &["--webhook-key-name=README.md"]), Source::Files(_)));
        assert!(matches!(source("certs", &[]), Source::Own(_)));
        // No process can write there, not even root's.
        assert!(matches!(source("/proc/sys", &[]), Source::Files(_)));
        assert!(matches!(source("missing", &[]), Source::Files(_)));
        assert!(matches!(source("certs", &["--enable-cert-manager"]), Source::CertManager));
    }
}
