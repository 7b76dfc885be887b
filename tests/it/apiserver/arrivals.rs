//! Creates Spark pods continuously, and connects to the webhook as new API servers would, to find out whether a pod or
//! a connection ever meets a webhook whose certificate is not trusted or that does not answer.

use crate::apiserver::prelude::*;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::mem;
use tokio::{runtime::Runtime, task::JoinSet};
use tokio_rustls::TlsConnector;

/// The number of pods that are created at once.
const AT_ONCE: usize = 4;
/// The pause after each pod. It results in about 100 pods in a second: enough to notice a webhook that is not trusted
/// for only 10 ms, and few enough to leave processor time for the replacement of certificates.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause after each TLS handshake of the test itself. It results in about 100 handshakes in a second, enough to
/// notice such a webhook as well; without a pause, the handshakes would take a whole core.
const PAUSE_OF_HANDSHAKES: Duration = Duration::from_millis(5);

/// Creates pods until `end` is called.
pub(crate) struct Arrivals {
    end: CancellationToken,
    /// A thread of its own, so that pods are also created while the test waits for `kubectl`.
    thread: thread::JoinHandle<Count>,
}

/// The results of [`Arrivals`].
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub pods: usize,
    pub handshakes: usize,
    /// One message for each failure: the API server's error for a pod that it refused, the name of a pod that it
    /// admitted without the webhook, and the error of each TLS handshake with the webhook that failed.
    pub failures: Vec<String>,
}

impl Arrivals {
    pub(crate) fn begin(namespace: &'static str) -> Self {
        Self::of(Stream { namespace, pause: PAUSE, handshakes: true })
    }

    /// Creates nearly the same number of pods in every second. The test itself does no TLS handshakes, so that the webhook
    /// sees only those of the API server.
    pub(crate) fn of_steady_pods(namespace: &'static str, per_second: u32) -> Self {
        let pause = Duration::from_secs(1) * u32::try_from(AT_ONCE).unwrap() / per_second;
        Self::of(Stream { namespace, pause, handshakes: false })
    }

    fn of(stream: Stream) -> Self {
        let end = CancellationToken::new();
        let ended = end.clone();
        let thread = thread::spawn(move || Runtime::new().unwrap().block_on(arrive(stream, ended)));
        Self { end, thread }
    }

    pub(crate) fn end(self) -> Count {
        self.end.cancel();
        self.thread.join().unwrap()
    }
}

/// The kind of load.
struct Stream {
    namespace: &'static str,
    /// The pause after each pod.
    pause: Duration,
    /// Whether the test itself also does TLS handshakes with the webhook, as an API server that has just started.
    handshakes: bool,
}

async fn arrive(stream: Stream, ended: CancellationToken) -> Count {
    let client = Client::try_default().await.unwrap();
    let mut all = JoinSet::new();
    for lane in 0..AT_ONCE {
        let pods = Api::namespaced(client.clone(), stream.namespace);
        all.spawn(pods_arrive(pods, lane, stream.pause, ended.clone()));
    }
    if stream.handshakes {
        all.spawn(api_servers_connect(Api::all(client), ended));
    }
    let mut sum = Count::default();
    while let Some(count) = all.join_next().await {
        let mut count = count.unwrap();
        sum.pods += count.pods;
        sum.handshakes += count.handshakes;
        sum.failures.append(&mut count.failures);
    }
    sum
}

async fn pods_arrive(pods: Api<Pod>, lane: usize, pause: Duration, ended: CancellationToken) -> Count {
    let mut count = Count::default();
    while !ended.is_cancelled() {
        let name = format!("arrival-{lane}-{}", count.pods);
        let pod = serde_json::from_value(json!({
            "metadata": {
                "name": name, "labels": {"spark-role": "executor"},
                "annotations": {"sparkoperator.k8s.io/env": r#"[{"name": "ARRIVED", "value": "yes"}]"#},
            },
            "spec": {"containers": [{"name": "spark-kubernetes-executor", "image": "none"}]},
        }))
        .unwrap();
        match pods.create(&PostParams::default(), &pod).await {
            Ok(pod) => {
                let env = pod.spec.unwrap().containers[0].env.take().unwrap_or_default();
                if env.iter().all(|variable| variable.name != "ARRIVED") {
                    count.failures.push(format!("{name} was admitted without the webhook"));
                }
            }
            Err(error) => count.failures.push(format!("{name}: {error}")),
        }
        count.pods += 1;
        sleep(pause).await;
    }
    count
}

/// Connects to the webhook again and again, with exactly the CAs in the webhook configuration, as an API server does
/// that has just started. (A running API server keeps its connection, so it sees few of the certificates.)
async fn api_servers_connect(
    configurations: Api<MutatingWebhookConfiguration>,
    ended: CancellationToken,
) -> Count {
    let mut count = Count::default();
    while !ended.is_cancelled() {
        let mut configuration = configurations.get(WEBHOOK).await.unwrap();
        let bundle = mem::take(&mut configuration.webhooks.as_mut().unwrap()[0].client_config.ca_bundle);
        if let Err(error) = handshake(&bundle.unwrap().0).await {
            count.failures.push(format!("handshake {}: {error}", count.handshakes));
        }
        count.handshakes += 1;
        sleep(PAUSE_OF_HANDSHAKES).await;
    }
    count
}

/// Returns the certificate that the webhook shows to a client that trusts these CAs.
pub(crate) async fn handshake(bundle: &[u8]) -> io::Result<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(bundle) {
        roots.add(ca.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(("127.0.0.1", 9443)).await?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned())
}
