//! Implements `spark-operator certs`: shows, rotates and generates the webhook's certificates.

use crate::{
    operator,
    settings::{CertsCommand, InstallationName, WebhookObjects},
};
use anyhow::{Context, bail, ensure};
use certificates::{
    Certificates, Configurations, Memory, PresentedCertificate, SharedSecret, own_certificates,
    renewal::{Reason, Step, Waits, Wish},
    x509,
};
use jiff::{Timestamp, Unit};
use kube::Client;
use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

mod report;

/// Carries out `command`, and returns the text to print.
///
/// # Errors
///
/// When the cluster cannot be reached or refuses, when a file to be written exists already, or when the certificates
/// that are shown do not match.
pub async fn run(command: &CertsCommand) -> anyhow::Result<String> {
    match command {
        CertsCommand::Show { cluster, installation, objects } => {
            let client = operator::client(cluster.kubeconfig.as_deref()).await?;
            let mutating = objects.mutating_configuration(installation);
            let validating = objects.validating_configuration(installation);
            let configurations = Configurations::read(&client, &mutating, &validating).await?;
            show(&Place::of(&client, installation, objects), &configurations).await
        }
        CertsCommand::Rotate { ca, cluster, installation, objects } => {
            let wish = if *ca { Wish::Ca } else { Wish::Leaf };
            let client = operator::client(cluster.kubeconfig.as_deref()).await?;
            rotate(&Place::of(&client, installation, objects), wish).await
        }
        CertsCommand::Generate { directory, dns_names } => write_certificates(directory, dns_names),
    }
}

/// The Secret of the certificates.
struct Place {
    /// Namespace and name, as messages show them.
    name: String,
    secret: SharedSecret,
}

impl Place {
    fn of(client: &Client, installation: &InstallationName, objects: &WebhookObjects) -> Self {
        let (namespace, name) = (&objects.webhook_secret_namespace, objects.secret(installation));
        let secret = SharedSecret::new(client.clone(), namespace, &name);
        Self { name: format!("{namespace}/{name}"), secret }
    }
}

async fn show(place: &Place, configurations: &Configurations) -> anyhow::Result<String> {
    let (place, secret) = (&place.name, place.secret.read().await?);
    let secret = secret.with_context(|| format!("Secret {place} does not exist: the operator makes it"))?;
    let shown =
        PresentedCertificate::of(&secret).with_context(|| format!("Secret {place} holds no certificates"))?;
    let (text, complaints) = report::report(&shown, &configurations.hooks(), now())?;
    if complaints.is_empty() {
        return Ok(text);
    }
    bail!("{}\n\n{text}", complaints.join("\n"))
}

/// Takes the next step of a rotation, just as a replica of the operator would. Running operators see the changed Secret
/// and take the other steps, so this command does not have to contact them.
async fn rotate(place: &Place, wish: Wish) -> anyhow::Result<String> {
    let (shared, place) = (&place.secret, &place.name);
    let secret = shared.read().await?;
    let secret = secret.with_context(|| format!("Secret {place} does not exist: the operator makes it"))?;
    let found = own_certificates(&secret).with_context(|| {
        format!(
            "Secret {place} holds none of the operator's own certificates: whoever made it has to renew them"
        )
    })?;
    let mut names = leaf(&found).with_context(|| format!("Secret {place}, leaf"))?.names;
    // The first name becomes the name of the CA, so `localhost` is put last.
    names.sort_by_key(|name| name == "localhost");
    // Only a running operator knows how long the CA has been trusted. These waits never end, so that this command signs
    // no leaf that depends on that time.
    let waits = Waits { settle: Duration::MAX, overlap: Duration::MAX };
    let (made, step) = shared.advance(&names, Some(wish), &Memory::default(), now(), &waits).await?;
    let valid_until = |pem: &str| -> anyhow::Result<Timestamp> {
        let newest = &x509::certificates(pem)?[0];
        Ok(x509::description(newest)?.validity.until)
    };
    let leaf = format!("new leaf, valid until {}", valid_until(&made.certificate)?);
    let ca = format!("new CA, valid until {}", valid_until(&made.ca_certificate)?);
    let served = "Running operators show it to new connections at once.";
    let trusted = "Running operators have it trusted beside the old one; after --webhook-ca-settle-time they sign a leaf \
                   with it, and after --webhook-ca-overlap they drop the old one.";
    Ok(match step {
        Step::SignLeaf(_) => format!("Secret {place}: {leaf}. {served}\n"),
        Step::AddCa(Reason::CaCannotSign) => {
            format!("Secret {place}: the CA's key is none that can sign here, so {ca}. {trusted}\n")
        }
        Step::AddCa(_) => format!("Secret {place}: {ca}. {trusted}\n"),
        Step::MakeAll(why) => format!("Secret {place}: {ca}; {leaf}, since {why}. {served}\n"),
        Step::Keep(_) | Step::DropOldCas => {
            format!("Secret {place}: a new CA is on its way already, and a new leaf with it.\n")
        }
    })
}

fn leaf(certificates: &Certificates) -> anyhow::Result<x509::Description> {
    Ok(x509::description(&x509::certificates(&certificates.certificate)?[0])?)
}

/// Writes new certificates and keys into files that are named as in the Secret. Only their owner can read the files.
/// Returns the paths, one per line.
fn write_certificates(directory: &Path, dns_names: &[String]) -> anyhow::Result<String> {
    let made = Certificates::generate(dns_names, now()).context("--dns-name")?;
    let files: Vec<(PathBuf, String)> =
        made.files().into_iter().map(|(name, pem)| (directory.join(name), pem)).collect();
    for (path, _) in &files {
        ensure!(!path.exists(), "{} exists already and is left as it is", path.display());
    }
    for (path, pem) in &files {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(pem.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(files.iter().map(|(path, _)| format!("{}\n", path.display())).collect())
}

/// Returns the time for certificates that are made and for reports, rounded to the second.
#[expect(clippy::disallowed_methods, reason = "the clock of what is made by hand and shown")]
fn now() -> Timestamp {
    Timestamp::now().round(Unit::Second).expect("the present is far from the end of time")
}
