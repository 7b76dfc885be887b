//! Proves that the operator uses certificates that others manage, and follows their changes. The test plays
//! cert-manager with its CA injector, or the kubelet that updates a mounted volume.

use super::{
    arrivals::handshake,
    certificates::{PATH, SECRET, bundle},
    installation::{is_not_ready, is_ready},
};
use crate::apiserver::prelude::*;
use certificates::Certificates;
use std::os::unix::fs::symlink;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn cert_managers_secret_is_used_and_its_injector_manages_ca_bundle() {
    let namespace = Namespace::new("cert-manager").await;
    // Deleted at the end as well, so that the operators of later tests manage Secret and caBundle themselves.
    let _removed = Finally::new(|| calls::delete(PATH));
    calls::delete(PATH);
    inject("");
    let operator = Operator::with(&namespace).argument("--enable-cert-manager").spawn();
    let missing = ["does not exist: cert-manager makes it from a Certificate"];
    is_not_ready(&operator, "certificates", &missing).await;

    let first = made();
    issue(&first);
    let untrusted = ["MutatingWebhookConfiguration/spark-operator-webhook does not trust", "inject-ca-from"];
    is_not_ready(&operator, "certificates", &untrusted).await;
    assert_eq!(bundle(), "");
    inject(&first.ca_certificate);
    is_ready(&operator).await;
    shows(&first).await;

    let renewed = first.with_new_leaf(&names(), now()).unwrap();
    issue(&renewed);
    shows(&renewed).await;
    assert_eq!(bundle(), encoded(&first.ca_certificate), "caBundle belongs to the injector");

    // The certificate that is trusted remains in use until the new one is trusted.
    let second = made();
    issue(&second);
    is_not_ready(&operator, "certificates", &untrusted).await;
    shows(&renewed).await;
    inject(&second.ca_certificate);
    shows(&second).await;
    is_ready(&operator).await;

    issue(&Certificates { key: first.key, ..second.clone() });
    let unfit =
        ["Secret spark-operator/spark-operator-webhook-certs: the key beside it cannot be used with it"];
    is_not_ready(&operator, "certificates", &unfit).await;
    shows(&second).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn mounted_certificates_are_reloaded_when_the_kubelet_updates_them() {
    let namespace = Namespace::new("mounted-files").await;
    let volume = Volume::new(&namespace.folder);
    let first = made();
    volume.holds(
        "1",
        &[("tls.crt", &first.certificate), ("tls.key", &first.key), ("ca.crt", &first.ca_certificate)],
    );
    let flag = format!("--webhook-cert-dir={}", volume.0.display());
    let operator = Operator::with(&namespace).argument(&flag).start().await;
    assert_eq!(bundle(), encoded(&first.ca_certificate));
    shows(&first).await;

    let second = made();
    volume.holds(
        "2",
        &[("tls.crt", &second.certificate), ("tls.key", &second.key), ("ca.crt", &second.ca_certificate)],
    );
    shows(&second).await;
    assert_eq!(bundle(), encoded(&second.ca_certificate));

    for (name, files, said) in [
        ("3", vec![("tls.crt", second.certificate.as_str())], "tls.key: No such file or directory"),
        (
            "4",
            vec![("tls.crt", "nonsense"), ("tls.key", &second.key)],
            "tls.crt: there is no certificate in it",
        ),
        ("5", vec![("tls.crt", &first.certificate), ("tls.key", &second.key)], "tls.crt: the key beside it"),
    ] {
        volume.holds(name, &files);
        is_not_ready(&operator, "certificates", &[said]).await;
        shows(&second).await;
    }

    // Without a CA in the volume, the operator does not manage caBundle.
    let third = second.with_new_leaf(&names(), now()).unwrap();
    volume.holds("6", &[("tls.crt", &third.certificate), ("tls.key", &third.key)]);
    shows(&third).await;
    is_ready(&operator).await;
    assert_eq!(bundle(), encoded(&second.ca_certificate));
}

/// A volume as the kubelet mounts a Secret: the files are links into a folder, which is a link itself.
struct Volume(PathBuf);

impl Volume {
    fn new(folder: &Path) -> Self {
        let volume = Self(folder.join("volume"));
        fs::create_dir(&volume.0).unwrap();
        for file in ["tls.crt", "tls.key", "ca.crt"] {
            symlink(Path::new("..data").join(file), volume.0.join(file)).unwrap();
        }
        volume
    }

    /// Replaces all files of the volume at once.
    fn holds(&self, version: &str, files: &[(&str, &str)]) {
        let folder = self.0.join(format!("..{version}"));
        fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        let link = self.0.join("..data_tmp");
        symlink(&folder, &link).unwrap();
        fs::rename(link, self.0.join("..data")).unwrap();
    }
}

/// Waits until the webhook presents the leaf of `certificates` to a client that trusts the CA of `certificates`.
async fn shows(certificates: &Certificates) {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let leaf = CertificateDer::from_pem_slice(certificates.certificate.as_bytes()).unwrap();
    eventually("the webhook presents the leaf", async || {
        let shown = handshake(certificates.ca_certificate.as_bytes()).await;
        let shown = shown.map_err(|error| error.to_string())?;
        seen(shown == leaf, "another leaf")
    })
    .await;
}

/// Writes the Secret as cert-manager does.
fn issue(certificates: &Certificates) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "type": "kubernetes.io/tls",
        "stringData": {
            "ca.crt": certificates.ca_certificate, "tls.crt": certificates.certificate,
            "tls.key": certificates.key,
        },
    });
    calls::apply(&secret, Some(NAMESPACE));
}

/// Writes caBundle into all installed webhooks, as the CA injector of cert-manager does.
fn inject(ca: &str) {
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let Some(object) = calls::get(&webhooks(kind, WEBHOOK)) else { continue };
        let patch: Vec<_> = (0..object["webhooks"].as_array().map_or(0, Vec::len))
            .map(|i| json!({"op": "add", "path": format!("/webhooks/{i}/clientConfig/caBundle"), "value": encoded(ca)}))
            .collect();
        calls::patch(&webhooks(kind, WEBHOOK), &json!(patch));
    }
}

fn encoded(pem: &str) -> String {
    json!(ByteString(pem.as_bytes().to_vec())).as_str().unwrap().to_owned()
}

fn made() -> Certificates {
    Certificates::generate(&names(), now()).unwrap()
}

fn names() -> [String; 2] {
    ["spark-operator-webhook-svc.spark-operator.svc".to_owned(), "localhost".to_owned()]
}
