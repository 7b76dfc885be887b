//! Implements `spark-operator certs`: shows, rotates and generates the webhook's certificates.

use crate::{operator, settings::CertsCommand};
use anyhow::{Context, bail, ensure};
use certificates::{
    Certificates, Configurations, Memory, PresentedCertificate, SharedSecret,
    renewal::{Reason, Step, Waits, Wish},
    x509,
};
use jiff::{Timestamp, Unit};
use k8s_openapi::api::core::v1::Secret;
use std::{fs, io::Write, os::unix::fs::OpenOptionsExt, path::Path, time::Duration};

mod report;

/// Carries out `command`, and returns the text to print.
///
/// # Errors
///
/// When the cluster cannot be reached or refuses, when a file to be written exists already, or when the certificates
/// that are shown do not match.
pub async fn run(command: &CertsCommand) -> anyhow::Result<String> {
    let (place, wish) = match command {
        CertsCommand::Show(place) => (place, None),
        CertsCommand::Rotate { ca, place } => (place, Some(if *ca { Wish::Ca } else { Wish::Leaf })),
        CertsCommand::Generate { directory, dns_names } => return write_certificates(directory, dns_names),
    };
    let client = operator::client(place.cluster.kubeconfig.as_deref()).await?;
    let places = place.objects.places(&place.installation);
    let shared = SharedSecret::new(client.clone(), &places);
    match wish {
        None => show(&shared, &Configurations::read(&client, &places).await?).await,
        Some(wish) => rotate(&shared, wish).await,
    }
}

async fn existing(shared: &SharedSecret) -> anyhow::Result<Secret> {
    let secret = shared.read().await?;
    secret.with_context(|| format!("{} does not exist: the operator makes it", shared.title))
}

async fn show(shared: &SharedSecret, configurations: &Configurations) -> anyhow::Result<String> {
    let shown = PresentedCertificate::of(&existing(shared).await?);
    let shown = shown.with_context(|| format!("{} holds no certificates", shared.title))?;
    let (text, complaints) = report::report(&shown, &configurations.hooks(), now())?;
    if complaints.is_empty() {
        return Ok(text);
    }
    bail!("{}\n\n{text}", complaints.join("\n"))
}

/// Takes the next step of a rotation, just as a replica of the operator would. Running operators see the changed Secret
/// and take the other steps, so this command does not have to contact them.
async fn rotate(shared: &SharedSecret, wish: Wish) -> anyhow::Result<String> {
    let title = &shared.title;
    let found = Certificates::of(&existing(shared).await?).with_context(|| {
        format!("{title} holds none of the operator's own certificates: whoever made it has to renew them")
    })?;
    let mut names = described(&found.certificate).with_context(|| format!("{title}, leaf"))?.names;
    // The first name becomes the name of the CA, so `localhost` is put last.
    names.sort_by_key(|name| name == "localhost");
    // Only a running operator knows how long the CA has been trusted. These waits never end, so that this command signs
    // no leaf that depends on that time.
    let waits = Waits { settle: Duration::MAX, overlap: Duration::MAX };
    let (made, step) = shared.advance(&names, Some(wish), &Memory::default(), now(), &waits).await?;
    let leaf = format!("new leaf, valid until {}", described(&made.certificate)?.validity.until);
    let ca = format!("new CA, valid until {}", described(&made.ca_certificate)?.validity.until);
    let served = "Running operators show it to new connections at once.";
    let trusted = "Running operators have it trusted beside the old one; after --webhook-ca-settle-time they sign a leaf \
                   with it, and after --webhook-ca-overlap they drop the old one.";
    let done = match step {
        Step::SignLeaf(_) => format!("{leaf}. {served}"),
        Step::AddCa(Reason::CaCannotSign) => {
            format!("the CA's key is none that can sign here, so {ca}. {trusted}")
        }
        Step::AddCa(_) => format!("{ca}. {trusted}"),
        Step::MakeAll(why) => format!("{ca}; {leaf}, since {why}. {served}"),
        Step::Keep(_) | Step::DropOldCas => {
            "a new CA is on its way already, and a new leaf with it.".to_owned()
        }
    };
    Ok(format!("{title}: {done}\n"))
}

/// Returns the content of the first certificate in `pem`.
fn described(pem: &str) -> Result<x509::Description, x509::Error> {
    x509::description(&x509::certificates(pem)?[0])
}

/// Writes new certificates and keys into files that are named as in the Secret. Only their owner can read the files.
/// Returns the paths, one per line.
fn write_certificates(directory: &Path, dns_names: &[String]) -> anyhow::Result<String> {
    let made = Certificates::generate(dns_names, now()).context("--dns-name")?;
    let files: Vec<_> = made.files().map(|(name, pem)| (directory.join(name), pem)).collect();
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
