//! Plays the Spark driver as far as the operator sees it: creates executor pods from the ConfigMaps that `spark-submit`
//! has created.

use crate::apiserver::prelude::*;
use spark_client::read_properties;

/// Creates executors of one driver as Spark's `ExecutorPodsAllocator` would.
pub(crate) struct Executors<'n> {
    namespace: &'n Namespace,
    application: String,
    /// An executor without name and number.
    pod: Value,
}

impl<'n> Executors<'n> {
    /// Reads the ConfigMaps of the pod `driver`.
    pub(crate) async fn of(namespace: &'n Namespace, driver: &Value) -> Self {
        let properties = mounted(namespace, driver, "spark-conf-volume-driver", "spark.properties").await;
        let properties = read_properties(&properties).unwrap();
        let mut pod = executor_template(namespace, driver).await;
        for (key, value) in &properties {
            for (prefix, field) in [("label.", "labels"), ("annotation.", "annotations")] {
                let entry =
                    key.strip_prefix("spark.kubernetes.executor.").and_then(|key| key.strip_prefix(prefix));
                if let Some(entry) = entry {
                    pod["metadata"][field][entry] = json!(value);
                }
            }
        }
        let labels = &mut pod["metadata"]["labels"];
        labels["spark-role"] = json!("executor");
        labels["spark-app-selector"] = json!(properties["spark.app.id"]);
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": driver["metadata"]["name"],
            "uid": driver["metadata"]["uid"], "controller": true,
        }]);
        let container = &mut pod["spec"]["containers"][0];
        container["image"] = json!(properties["spark.kubernetes.executor.container.image"]);
        container["args"] = json!(["executor"]);
        Self { namespace, application: properties["spark.app.name"].clone(), pod }
    }

    /// Creates the executor with this number; returns its name.
    pub(crate) async fn make(&self, id: u32) -> String {
        let name = format!("{}-exec-{id}", self.application);
        let mut pod = self.pod.clone();
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["labels"]["spark-exec-id"] = json!(id.to_string());
        self.namespace.create::<Pod>(&pod).await;
        name
    }
}

/// Creates an executor of the pod `driver`; returns its name.
pub(crate) async fn make_executor(namespace: &Namespace, driver: &Value, id: u32) -> String {
    Executors::of(namespace, driver).await.make(id).await
}

/// Returns the pod template of executors as `driver` reads it.
pub(super) async fn executor_template(namespace: &Namespace, driver: &Value) -> Value {
    let template = mounted(namespace, driver, "pod-template-volume", "podspec-configmap-key").await;
    serde_saphyr::from_str(&template).unwrap()
}

/// Returns the text of `key` in the ConfigMap that the driver mounts as `volume`.
async fn mounted(namespace: &Namespace, driver: &Value, volume: &str, key: &str) -> String {
    let volumes = driver["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|found| found["name"] == volume).expect(volume);
    let name = volume["configMap"]["name"].as_str().unwrap();
    let config_map = namespace.get::<ConfigMap>(name).await.expect(name);
    config_map["data"][key].as_str().unwrap_or_else(|| panic!("no {key} in {config_map}")).to_owned()
}
