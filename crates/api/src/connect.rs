//! Defines `SparkConnect`: a server of Spark Connect, to which notebooks and other clients connect.

use std::collections::BTreeMap;

use api_derive::kubernetes_json;
use k8s_openapi::{
    api::core::v1::{PodTemplateSpec, Service},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube_core::ResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Embedded, application::DynamicAllocation, embedded, names::annotation, nulls::reads_null_as_absent,
    pod::NameKey, status::conditions,
};

/// A server of Spark Connect and its executors. The fields of Kubeflow's operator and what we add to them: `suspend`,
/// `ttlSecondsAfterIdle`, `sleepAfterIdleSeconds`, `server.access` and `server.token`.
#[kubernetes_json]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "sparkoperator.k8s.io",
    version = "v1alpha1",
    kind = "SparkConnect",
    shortname = "sparkconn",
    namespaced,
    status = "SparkConnectStatus",
    derive = "PartialEq",
    doc = "A server of Spark Connect that the operator creates, watches, replaces and reports on."
)]
#[serde(remote = "Self")]
#[schemars(extend("required" = ["executor", "server", "sparkVersion"]))]
pub struct SparkConnectSpec {
    /// Version of Spark in the image, for instance `4.0.1`.
    pub spark_version: String,
    /// Container image of server and executors, unless the container of a template has its own.
    pub image: Option<String>,
    /// Any Spark properties, as with `--conf`. A field of this object that stands for the same property wins.
    pub spark_conf: BTreeMap<String, String>,
    /// Any Hadoop properties. Each becomes `spark.hadoop.<key>`.
    pub hadoop_conf: BTreeMap<String, String>,
    /// The server: the pod that clients connect to, and that requests executors. `{}` is enough.
    pub server: ConnectServerSpec,
    /// The executors: the pods that do the work. `{}` is enough.
    pub executor: ConnectExecutorSpec,
    /// Dynamic allocation of executors.
    pub dynamic_allocation: Option<DynamicAllocation>,
    /// Set to true to stop the server: its pod is deleted, and none is made until it is set to false again.
    /// Default: false.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub suspend: bool,
    /// Seconds without a connection after which the object is deleted, with all that belongs to it; at least
    /// 60. Needs the operator's gateway. Default: never.
    pub ttl_seconds_after_idle: Option<i64>,
    /// Seconds without a connection after which server and executors are deleted until the next client
    /// connects, which waits for the start; at least 60. Needs the operator's gateway. Default: never.
    pub sleep_after_idle_seconds: Option<i64>,
}

/// The pod of the server, and how clients reach it.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectServerSpec {
    /// Number of cores, and the CPU request of the pod unless the template has one. Becomes
    /// `spark.driver.cores`.
    #[schemars(range(min = 1))]
    pub cores: Option<i32>,
    /// Heap of the Java virtual machine, in Java's notation: `512m`, `4g`. The pod requests this plus the overhead
    /// unless the template has a request. Becomes `spark.driver.memory`.
    pub memory: Option<String>,
    /// Pod to start from: a Kubernetes PodTemplateSpec. The server runs in its container
    /// `spark-kubernetes-driver`, else in the first one.
    #[schemars(schema_with = "embedded::opaque")]
    pub template: Option<Embedded<PodTemplateSpec>>,
    /// Service to start from: a Kubernetes Service, of which metadata.name, labels, annotations and the type are
    /// kept. Default name: that of the object with `-server`.
    #[schemars(schema_with = "embedded::opaque")]
    pub service: Option<Embedded<Service>>,
    /// Service account of the server's pod. Default: the template's, else the operator's
    /// --default-service-account.
    pub service_account: Option<String>,
    /// The pods that may connect. `Namespace`: those of this namespace, by a NetworkPolicy of the operator.
    /// `Cluster`: all. Default: the operator's --connect-default-access, which is `Namespace`.
    #[schemars(with = "Option<String>", extend("enum" = ["Namespace", "Cluster"]))]
    pub access: Option<ConnectAccess>,
    /// The token that clients have to send: a key of a Secret in this namespace. Spark 4.1 and later.
    pub token: Option<NameKey>,
}

/// The pods of the executors.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectExecutorSpec {
    /// Number of executors. Default: Spark's, which is 2. Becomes `spark.executor.instances`.
    #[schemars(range(min = 0))]
    pub instances: Option<i32>,
    /// Number of cores, whole ones. Becomes `spark.executor.cores`.
    #[schemars(range(min = 1))]
    pub cores: Option<i32>,
    /// Heap of the Java virtual machine, in Java's notation: `512m`, `4g`. Becomes `spark.executor.memory`.
    pub memory: Option<String>,
    /// Pod to start from: a Kubernetes PodTemplateSpec. Executors run in its container
    /// `spark-kubernetes-executor`. Becomes `spark.kubernetes.executor.podTemplateFile`.
    #[schemars(schema_with = "embedded::opaque")]
    pub template: Option<Embedded<PodTemplateSpec>>,
}

/// The pods that may connect to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectAccess {
    /// The pods of the server's namespace.
    #[default]
    Namespace,
    /// The pods of all namespaces.
    Cluster,
}

/// The state of a server. The fields of Kubeflow's operator and what we add to them: `observedGeneration`, `serverHash`,
/// `restarts`, `lastRestartTime`, `lastFailure` and `gateway`.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
pub struct SparkConnectStatus {
    /// Empty (new), `Provisioning`, `Ready`, `NotReady` or `Failed`. The condition `ServerPodReady` says why.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub state: ConnectState,
    /// `ServerPodReady`, `Suspended`, `Sleeping`, and `GatewayMissing` where a field needs a gateway: Kubernetes
    /// Conditions.
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The pod and the Service of the server.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub server: ConnectServerStatus,
    /// Number of executors by the phase of their pods, in lower case.
    pub executors: BTreeMap<String, i32>,
    /// When the operator saw the object first.
    pub start_time: Option<Time>,
    /// When the status changed last.
    pub last_update_time: Option<Time>,
    /// `metadata.generation` of the spec that was acted on last.
    pub observed_generation: Option<i64>,
    /// Hash of what the server's pod was made from: an edit that leaves it the same does not restart the server.
    pub server_hash: Option<String>,
    /// Number of servers that ended by themselves since the last edit, or since a server was ready for 10
    /// minutes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub restarts: i32,
    /// When the server's pod was made last.
    pub last_restart_time: Option<Time>,
    /// The end of the last server that ended by itself.
    pub last_failure: Option<ConnectFailure>,
    /// Where the operator's gateway takes connections for this server.
    pub gateway: Option<ConnectGateway>,
}

reads_null_as_absent!("spec": SparkConnectSpec, "status": SparkConnectStatus);

crate::words! {
    /// The stage of a server. The strings are those of Kubeflow's operator.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[schemars(with = "String")]
    pub enum ConnectState {
        /// The server's pod is being created, or exists and has never been ready. A pod that has ended is recreated
        /// soon.
        Provisioning = "Provisioning",
        /// Clients can connect.
        Ready = "Ready",
        /// The server that was ready does not answer or has ended, or is suspended, or sleeps.
        NotReady = "NotReady",
        /// The server's pod cannot be created, or three servers in a row have ended by themselves. The next attempt
        /// follows later.
        Failed = "Failed",
        /// Nothing was done yet. A state that we do not know is read as this one.
        #[default]
        #[serde(rename = "", other)]
        New = "",
    }
}

/// The pod and the Service of a server.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectServerStatus {
    /// Name of the server's pod.
    pub pod_name: Option<String>,
    /// Address of the server's pod.
    pub pod_ip: Option<String>,
    /// Name of the Service.
    pub service_name: Option<String>,
}

/// The end of a server that ended by itself.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectFailure {
    /// The reason, as a word: `Error`, `OOMKilled`, `Evicted`.
    pub reason: Option<String>,
    /// Exit code of the server's container.
    pub exit_code: Option<i32>,
    /// The reason, as a sentence, with the last words of the container.
    pub message: Option<String>,
    /// Uid of the server's pod; absent if the pod was gone before the operator saw its end.
    pub pod_uid: Option<String>,
    /// When the operator saw the end.
    pub time: Option<Time>,
}

/// Where the operator's gateway takes connections for a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectGateway {
    /// Port of the gateway's pods.
    pub port: i32,
}

impl SparkConnectStatus {
    /// Returns the condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Returns the condition of this type, if it is true.
    pub fn true_condition(&self, type_: &str) -> Option<&Condition> {
        self.condition(type_).filter(|condition| condition.status == "True")
    }
}

impl SparkConnect {
    /// Returns the state in the status; `New` without a status.
    pub fn state(&self) -> ConnectState {
        self.status.as_ref().map_or(ConnectState::New, |status| status.state)
    }

    /// Returns the time at which a connection was open last; `None` if the gateway's annotation is missing or is not a
    /// time.
    pub fn last_connection(&self) -> Option<Time> {
        self.annotations().get(annotation::LAST_CONNECTION)?.parse().ok().map(Time)
    }

    /// Returns whether clients connect to the server through the operator's gateway, if the operator has one.
    pub fn needs_gateway(&self) -> bool {
        self.spec.ttl_seconds_after_idle.is_some() || self.spec.sleep_after_idle_seconds.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_spark_connect_of_kubeflows_sdk_is_read() {
        let connect: SparkConnect = serde_json::from_value(json!({
            "metadata": {"name": "spark-connect-0f1e2d3c", "creationTimestamp": null},
            "spec": {
                "sparkVersion": "4.0.1", "server": {"template": {"spec": {"containers": []}}, "cores": null},
                "executor": {}, "dynamicAllocation": {"enabled": true, "shuffleTrackingTimeout": 1000},
            },
            "status": {"state": "Running", "executors": {"running": 2}, "startTime": null},
        }))
        .unwrap();
        assert_eq!((connect.state(), connect.spec.server.cores), (ConnectState::New, None));
        assert_eq!(connect.status.unwrap().executors["running"], 2);
    }

    #[test]
    fn every_state_is_read_back_as_it_was_written() {
        for state in ConnectState::ALL {
            assert_eq!(serde_json::from_value::<ConnectState>(json!(state)).unwrap(), state);
        }
    }

    #[test]
    fn a_last_connection_that_is_not_a_time_is_ignored() {
        let mut connect = SparkConnect::new("notebook", SparkConnectSpec::default());
        for (written, read) in [("2024-05-06T07:08:09Z", true), ("yesterday", false)] {
            let annotation = (annotation::LAST_CONNECTION.to_owned(), written.to_owned());
            connect.metadata.annotations = Some([annotation].into());
            assert_eq!(connect.last_connection().is_some(), read);
        }
    }
}
