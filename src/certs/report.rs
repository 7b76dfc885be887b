//! Compares the Secret of the certificates with the webhook configurations, and reports what does not match.

use certificates::{Hook, PresentedCertificate, renewal::Validity, x509};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use std::io::Write;
use tabwriter::TabWriter;

/// What a column without a value shows, as in kubectl.
const NONE: &str = "<none>";
/// The number of hexadecimal digits of a fingerprint that are shown: enough to tell certificates apart.
const DIGITS: usize = 12;

/// Returns two tables as text, one of the certificates and one of the webhooks, and a list of all that is wrong.
pub(super) fn report(
    shown: &PresentedCertificate,
    hooks: &[Hook],
    now: Timestamp,
) -> anyhow::Result<(String, Vec<String>)> {
    let cas = x509::certificates(&shown.cas).unwrap_or_default();
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
        let names: Vec<_> = trusted
            .iter()
            .map(|ca| cas.iter().position(|known| known == ca).map_or("another CA".to_owned(), ca_name))
            .collect();
        let names = if names.is_empty() { NONE.to_owned() } else { names.join(",") };
        let service = hook.service_name.as_deref().unwrap_or(NONE);
        writeln!(table, "{}\t{}\t{service}\t{names}", hook.name, hook.configuration)?;

        let of = format!("{}, webhook {}", hook.configuration, hook.name);
        if x509::issuer(&chain, &trusted).is_none() {
            complaints.push(format!("{of}: its caBundle does not trust the leaf"));
        } else if trusted != cas && !cas.is_empty() {
            complaints.push(format!("{of}: its caBundle is not the Secret's"));
        }
        let called: Vec<_> = hook.service_name.iter().cloned().collect();
        if !x509::lacks(&chain[0], &called).is_empty() {
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
    use certificates::Certificates;

    #[test]
    fn both_cas_are_told_apart_and_whatever_does_not_go_together_is_named() {
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
        let report = |hook| {
            let shown = PresentedCertificate {
                certificate: both.certificate.clone(),
                cas: both.ca_certificate.clone(),
            };
            report(&shown, &[hook], now).unwrap()
        };
        let (text, complaints) = report(hook("x.y.svc", &both.ca_certificate));
        assert_eq!(complaints, Vec::<String>::new());
        let without_digits = |line: &str| line.rsplit_once(' ').unwrap().0.trim().to_owned();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(
            lines[1..4].iter().map(|line| without_digits(line)).collect::<Vec<_>>(),
            [
                "CA            CN=x.y.svc CA, O=spark-operator   <none>    itself       2036-11-20T12:00:00Z   3652d",
                "older CA 1    CN=x.y.svc CA, O=spark-operator   <none>    itself       2036-11-20T12:00:00Z   3652d",
                "leaf          CN=x.y.svc, O=spark-operator      x.y.svc   older CA 1   2027-11-21T12:00:00Z   365d",
            ]
        );
        assert_eq!(
            lines[5..],
            [
                "WEBHOOK   OF                               CALLED    TRUSTS",
                "pods      MutatingWebhookConfiguration/x   x.y.svc   CA,older CA 1",
                "",
                "All agree.",
            ]
        );

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
