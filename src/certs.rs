//! Implements `spark-operator certs`: shows, rotates and generates the webhook's certificates.

use crate::{operator, parts::now, settings::CertsCommand};
use anyhow::{Context, bail, ensure};
use certificates::{
    Certificates, Configurations, Error, Hook, Memory, SharedSecret,
    renewal::{Reason, Step, Validity, Waits, Wish},
    x509,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use rustls::pki_types::CertificateDer;
use std::{fs, io::Write, os::unix::fs::OpenOptionsExt, path::Path, time::Duration};
use tabwriter::TabWriter;

/// What a column without a value shows, as in kubectl.
const NONE: &str = "<none>";
/// The number of hexadecimal digits of a fingerprint that are shown: enough to tell certificates apart.
const DIGITS: usize = 12;

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
    secret.with_context(|| {
        let title = &shared.title;
        format!(
            "{title} does not exist: the operator creates it, or cert-manager (--enable-cert-manager); certificates from \
             files (--webhook-cert-dir) are in no Secret, and whoever made the files has to renew them"
        )
    })
}

async fn show(shared: &SharedSecret, configurations: &Configurations) -> anyhow::Result<String> {
    let hooks = configurations.hooks();
    let cas = hooks.first().and_then(|hook| hook.ca_bundle.as_deref()).unwrap_or_default();
    let shown = Certificates::in_either_format(&existing(shared).await?, cas);
    let shown = shown.with_context(|| format!("{} holds no certificates", shared.title))?;
    let (text, complaints) = report(&shown, &hooks, now())?;
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
            format!("the operator cannot sign with the CA's key, so {ca}. {trusted}")
        }
        Step::AddCa(_) => format!("{ca}. {trusted}"),
        Step::MakeAll(why) => format!("{ca}; {leaf}, since {why}. {served}"),
        Step::Keep(_) | Step::DropOldCas => {
            "a new CA is being rolled out already, and a new certificate with it.".to_owned()
        }
    };
    Ok(format!("{title}: {done}\n"))
}

/// Returns the content of the first certificate in `pem`.
fn described(pem: &str) -> Result<x509::Description, Error> {
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

/// Returns two tables as text, one of the certificates and one of the webhooks, and a list of all mismatches.
fn report(shown: &Certificates, hooks: &[Hook], now: Timestamp) -> anyhow::Result<(String, Vec<String>)> {
    let cas = x509::certificates(&shown.ca_certificate).unwrap_or_default();
    let chain = x509::certificates(&shown.certificate)?;
    let issuer = x509::issuer(&chain, &cas);
    let mut complaints = Vec::new();
    if issuer.is_none() {
        complaints.push("the leaf is signed by none of the CAs beside it".to_owned());
    }

    let mut table = TabWriter::new(Vec::new()).minwidth(0).padding(3);
    writeln!(table, "CERTIFICATE\tSUBJECT\tNAMES\tSIGNED BY\tVALID UNTIL\tLEFT\tSHA-256")?;
    let mut row = |name: &str, der: &CertificateDer<'_>, signer: Option<String>| -> anyhow::Result<()> {
        let x509::Description { subject, issuer, names, validity, fingerprint } = x509::description(der)?;
        let Validity { from, until } = validity;
        let days = until.duration_since(now).as_hours().div_euclid(24);
        if !validity.includes(now) {
            complaints.push(format!("{name} is valid from {from} until {until}"));
        }
        let names = if names.is_empty() { NONE.to_owned() } else { names.join(",") };
        let itself = if issuer == subject { "itself".to_owned() } else { issuer };
        let (signer, digits) = (signer.unwrap_or(itself), &fingerprint[..DIGITS]);
        writeln!(table, "{name}\t{subject}\t{names}\t{signer}\t{until}\t{days}d\t{digits}")?;
        Ok(())
    };
    for (i, ca) in cas.iter().enumerate() {
        row(&ca_name(i), ca, None)?;
    }
    row("leaf", &chain[0], issuer.map(ca_name))?;

    writeln!(table, "\nWEBHOOK\tOF\tCALLED\tTRUSTS")?;
    for hook in hooks {
        let trusted = x509::certificates(hook.ca_bundle.as_deref().unwrap_or_default()).unwrap_or_default();
        let places = trusted.iter().map(|ca| cas.iter().position(|known| known == ca));
        let names: Vec<_> = places.map(|place| place.map_or("another CA".to_owned(), ca_name)).collect();
        let names = if names.is_empty() { NONE.to_owned() } else { names.join(",") };
        let service = hook.service_name.as_deref().unwrap_or(NONE);
        writeln!(table, "{}\t{}\t{service}\t{names}", hook.name, hook.configuration)?;

        let of = format!("{}, webhook {}", hook.configuration, hook.name);
        if x509::issuer(&chain, &trusted).is_none() {
            complaints.push(format!("{of}: its caBundle does not trust the leaf"));
        } else if trusted != cas && !cas.is_empty() {
            complaints.push(format!("{of}: its caBundle is not the Secret's"));
        }
        if !x509::lacks(&chain[0], hook.service_name.as_slice()).is_empty() {
            complaints.push(format!("{of}: it is called {service}, and the leaf is not for that name"));
        }
    }
    if complaints.is_empty() {
        writeln!(table, "\nAll agree.")?;
    }
    let bytes = table.into_inner().map_err(|error| anyhow::anyhow!(error.to_string()))?;
    Ok((String::from_utf8(bytes)?, complaints))
}

fn ca_name(index: usize) -> String {
    if index == 0 { "CA".to_owned() } else { format!("older CA {index}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_both_cas_and_each_mismatch() {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let names = ["x.y.svc".to_owned()];
        let made = Certificates::generate(&names, now).unwrap();
        let both = made.with_new_ca(&names, now).unwrap();
        let hook = |called: &str, bundle: &str| Hook {
            configuration: "MutatingWebhookConfiguration/x".into(),
            name: "pods".into(),
            service_name: Some(called.into()),
            ca_bundle: Some(bundle.into()),
        };
        let report = |hook| report(&both, &[hook], now).unwrap();
        let (text, complaints) = report(hook("x.y.svc", &both.ca_certificate));
        assert_eq!(complaints, Vec::<String>::new());
        // Without the fingerprints.
        let lines: Vec<_> = text.lines().collect();
        let of_certificates = lines[1..4].iter().map(|line| line.rsplit_once(' ').unwrap().0.trim());
        let shown: Vec<_> = of_certificates.chain(lines[5..].iter().copied()).collect();
        let expected = include_str!("../tests/data/certificates.txt");
        assert_eq!(shown, expected.lines().collect::<Vec<_>>());

        let of = "MutatingWebhookConfiguration/x, webhook pods: ";
        let newest = &both.with_newest_ca_alone().ca_certificate;
        for (hook, complaint) in [
            (hook("x.y.svc", ""), "its caBundle does not trust the leaf"),
            (hook("x.y.svc", newest), "its caBundle does not trust the leaf"),
            (hook("x.y.svc", &made.ca_certificate), "its caBundle is not the Secret's"),
            (hook("z.svc", &both.ca_certificate), "it is called z.svc, and the leaf is not for that name"),
        ] {
            assert_eq!(report(hook).1, [format!("{of}{complaint}")]);
        }
    }
}
