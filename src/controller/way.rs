//! Does the API server find the webhook yet? A Service has our address seconds after we are ready, and a new
//! caBundle is heard of a moment after it is written; a driver that is made before is refused.

use crate::api::{
    Role,
    names::{annotation, label},
};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use std::time::Duration;
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};
use tracing::warn;

/// How long it may not be found before drivers are made all the same: whoever looks at their application then
/// sees why not. A kubelet looks at us every two seconds, and a node hears of it in another.
const FOUND_WITHIN: Duration = Duration::from_secs(30);
/// How soon to look again whether it is.
const AGAIN: Duration = Duration::from_millis(250);

/// The API server's way to the webhook.
pub(super) struct Way {
    client: Client,
    open: OnceCell<()>,
}

impl Way {
    pub(super) fn new(client: Client) -> Self {
        Self { client, open: OnceCell::new() }
    }

    /// Waits until the API server finds the webhook for a driver in `namespace`, or has had long enough. Once it
    /// has been found, nobody looks again.
    pub(super) async fn opens(&self, namespace: &str) {
        self.open.get_or_init(|| self.looked(namespace)).await;
    }

    async fn looked(&self, namespace: &str) {
        let begun = Instant::now();
        while let Err(error) = self.is_open(namespace).await {
            if begun.elapsed() >= FOUND_WITHIN {
                warn!(%error, "the API server does not find the webhook: drivers are likely to be refused");
                return;
            }
            sleep(AGAIN).await;
        }
    }

    /// Asks for a driver that is not kept: the API server has to ask the webhook about it. Whatever else it has
    /// against the pod, others say after the webhook.
    async fn is_open(&self, namespace: &str) -> Result<(), kube::Error> {
        let keep_nothing = PostParams { dry_run: true, ..PostParams::default() };
        match Api::namespaced(self.client.clone(), namespace).create(&keep_nothing, &driver()).await {
            // A webhook that cannot be called is an internal error.
            Err(kube::Error::Api(status)) if status.code != 500 => Ok(()),
            result => result.map(drop),
        }
    }
}

/// One that asks the webhook for nothing.
fn driver() -> Pod {
    let container = Container {
        name: Role::Driver.container().to_owned(),
        image: Some("none".to_owned()),
        ..Container::default()
    };
    let metadata = ObjectMeta {
        name: Some("spark-operator-webhook-probe".to_owned()),
        labels: Some([(label::SPARK_ROLE.to_owned(), Role::Driver.as_str().to_owned())].into()),
        annotations: Some([(annotation::ENV.to_owned(), "[]".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
    Pod { metadata, spec: Some(spec), ..Pod::default() }
}
