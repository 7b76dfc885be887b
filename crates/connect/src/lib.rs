//! Decides which objects a `SparkConnect` has, and when its server is created, replaced and deleted: from its status,
//! the observed objects and the time.
//!
//! All names are derived from that of the SparkConnect, and the server's pod has the hash of the spec that it was
//! created from, so that an attempt that is repeated after a crash finds the objects of the first one. Objects that
//! Kubeflow's operator has created have the same names and owner: a server that it has started keeps running until its
//! spec is edited.

mod application;
mod checks;
mod edits;
mod events;
mod executor_trial;
mod gateway_policy;
pub mod names;
mod objects;
mod options;
mod pass;
pub mod quota;
mod server_pod;
mod ui;

pub use checks::{examine, exposure_rights, validate};
pub use edits::differences;
pub use events::not_applied;
pub use executor_trial::{executor, is_trial_due};
pub use gateway_policy::gateway_policy;
pub use server_pod::server_hash;

use api::{ConnectAccess, ObjectKey, SparkConnect, SparkConnectStatus, names::annotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use plan::{events::Event, executor_trial::Trial};
use pods::PodSummary;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use submission::exposure::Exposure;

/// The port that clients connect to.
pub const CONNECT_PORT: i32 = 15002;
/// The port at which executors connect to the server.
pub const DRIVER_PORT: i32 = 7078;
/// The port of the server's block manager.
pub const BLOCK_MANAGER_PORT: i32 = 7079;
/// The port of Spark's web UI.
pub const UI_PORT: i32 = 4040;
/// The minimum of `ttlSecondsAfterIdle` and `sleepAfterIdleSeconds`, in seconds: by default, the gateway reports open
/// connections every 30 to 38 s.
pub const LEAST_IDLE_SECONDS: i64 = 60;

/// The admin's settings for all servers.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The URL of the API server as Spark's `--master`: `k8s://https://…`.
    pub master: String,
    /// Who may connect to a server without `server.access`.
    pub default_access: ConnectAccess,
    /// The service account of servers that name none. Absent or empty for the namespace's `default`.
    pub default_service_account: Option<String>,
    /// The settings for Ingresses of web UIs.
    pub exposure: Exposure,
    /// The operator's gateway, if it has one.
    pub gateway: Option<Gateway>,
    /// Whether an executor of a server that has none is sent to the API server as a dry run, to learn whether it is
    /// refused.
    pub tries_executors: bool,
}

impl Policy {
    /// Returns a policy with this API server URL and the default of every other setting.
    pub fn new(master: impl Into<String>) -> Self {
        Self {
            master: master.into(),
            default_access: ConnectAccess::default(),
            default_service_account: None,
            exposure: Exposure::default(),
            gateway: None,
            tries_executors: true,
        }
    }
}

/// The gateway, through which clients connect to servers that sleep or are deleted when they are idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gateway {
    /// The namespace of its pods.
    pub namespace: String,
    /// Labels that its pods have, and no other pods of the namespace.
    pub labels: BTreeMap<String, String>,
    /// The IP addresses of its pods.
    pub addresses: Vec<String>,
}

/// Everything that the controller has observed about one SparkConnect.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The pod with the server's name.
    pub server: Option<Box<ServerPod>>,
    /// The number of executors by the phase of their pods, in lower case.
    pub executors: BTreeMap<String, i32>,
    /// The API server's answer to a dry run of an executor, if one was sent in this reconcile.
    pub executor_trial: Option<Trial>,
    /// The objects other than the pod that the SparkConnect controls, and objects of other owners that have their
    /// names.
    pub objects: Vec<Found>,
    /// Why the API server refused the server's pod at the last attempt to create it, for example because of a quota.
    pub refusal: Option<String>,
    /// Why the API server refused an object other than the pod and the Ingress when it was last applied: the server's
    /// pod is not created without that object.
    pub refused_object: Option<String>,
    /// Why the server's pod does not start: see [`plan::driver::until_next_lookup`].
    pub start_failure: Option<String>,
    /// The port at which the gateway serves this SparkConnect: that of its status, unless another SparkConnect has it,
    /// else a free one. `None` without a gateway or without a free port.
    pub gateway_port: Option<i32>,
    /// The time for which the server does not count as idle yet, because the gateway may have been unable to report open
    /// connections.
    pub settling: Duration,
}

/// The pod with the server's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPod {
    pub summary: PodSummary,
    /// Whether clients can connect.
    pub is_ready: bool,
    pub ip: Option<String>,
    /// The hash of the spec that the pod was created from. `None` if Kubeflow's operator has created it.
    pub hash: Option<String>,
    /// The pod's `deletionTimestamp`: when it has to be gone, if it is being deleted.
    pub deletion: Option<Timestamp>,
}

impl ServerPod {
    /// Returns the part of `pod` that decisions need.
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let annotations = pod.metadata.annotations.as_ref();
        Self {
            summary: PodSummary::of(pod),
            is_ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
            ip: status.and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty()),
            hash: annotations.and_then(|annotations| annotations.get(annotation::SERVER_HASH).cloned()),
            deletion: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        }
    }
}

/// An object other than the pod: see [`Observed::objects`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub key: ObjectKey,
    pub uid: String,
    /// Whether the SparkConnect controls the object.
    pub is_ours: bool,
    /// Whether it is a Service with a selector.
    pub has_selector: bool,
}

/// What to do and what to record. The actions are carried out first, except [`Action::CreateServer`]; then `wanted` is
/// applied, then the server's pod is created, then the status is written, then the events are sent.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Plan {
    pub actions: Vec<Action>,
    /// The desired objects other than the pod. Those that differ are changed by server-side apply.
    pub wanted: Vec<Value>,
    pub status: SparkConnectStatus,
    pub events: Vec<Event>,
    /// The time until the next reconcile if no watch triggers an earlier one.
    pub wake: Option<Duration>,
}

/// One effect. Each effect can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates the server's pod, after the objects of `wanted`. A pod that has the name already is left as it is. The
    /// reason of a refusal becomes [`Observed::refusal`] of the next reconcile.
    CreateServer(Box<Value>),
    /// Deletes the server's pod if it still has this uid. With `force`, Kubernetes does not wait for the pod's node.
    DeleteServer { name: String, uid: String, force: bool },
    /// Deletes an object other than the pod if it still has this uid.
    Delete { key: ObjectKey, uid: String },
    /// Deletes the SparkConnect itself, unless it has changed since it was read.
    DeleteConnect,
}

/// Returns the plan for `connect`, from the observed facts `seen`. Never fails and never waits.
pub fn next(connect: &SparkConnect, seen: &Observed, now: Timestamp, policy: &Policy) -> Plan {
    pass::plan(connect, seen, now, policy)
}
