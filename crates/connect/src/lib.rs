//! Decides what a `SparkConnect` consists of, and when its server is created, replaced and deleted, given its status, what
//! there is in the cluster, and the time.
//!
//! All names are derived, and the server's pod has the hash of what it was made from, so that a repeated attempt after a
//! crash finds what the first one made. Objects of Kubeflow's operator have the same names and owner: a server of it goes
//! on until its spec is edited.

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
/// The port at which executors find the server.
pub const DRIVER_PORT: i32 = 7078;
/// The port of the server's block manager.
pub const BLOCK_MANAGER_PORT: i32 = 7079;
/// The port of Spark's web UI.
pub const UI_PORT: i32 = 4040;
/// The fewest seconds without a connection that a field can ask for: the gateway notes open connections twice in this time.
pub const LEAST_IDLE_SECONDS: i64 = 60;

/// The admin's settings for all servers.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The address of the API server for Spark: `k8s://https://…`.
    pub master: String,
    /// Who may connect where `server.access` says nothing.
    pub default_access: ConnectAccess,
    /// The service account of servers that name none; none for the namespace's `default`.
    pub default_service_account: Option<String>,
    /// The settings for Ingresses of web UIs.
    pub exposure: Exposure,
    /// The operator's gateway, if it has one.
    pub gateway: Option<Gateway>,
    /// Whether the API server is asked whether it would accept executors of a server that has none.
    pub tries_executors: bool,
}

impl Policy {
    /// Returns a policy with this API server address and the default of every other setting.
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

/// The gateway, through which clients connect to servers that sleep or are deleted when nobody asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gateway {
    /// The namespace of its pods.
    pub namespace: String,
    /// Labels that its pods have, and no other pods of the namespace.
    pub labels: BTreeMap<String, String>,
    /// The addresses of its pods.
    pub addresses: Vec<String>,
}

/// Everything that the controller has found out about one SparkConnect.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The pod with the server's name.
    pub server: Option<Box<ServerPod>>,
    /// The number of executors by the phase of their pods, in lower case.
    pub executors: BTreeMap<String, i32>,
    /// The API server's answer to a dry run of an executor, if it was asked now.
    pub executor_trial: Option<Trial>,
    /// The objects beside the pod that the SparkConnect controls, and those of others that have their names.
    pub objects: Vec<Found>,
    /// Why the API server has refused the server's pod when it was to be created last: a quota, for instance.
    pub refusal: Option<String>,
    /// Why the API server has refused an object beside the pod, but an Ingress, when it was applied last: no server is made
    /// without it.
    pub refused_object: Option<String>,
    /// Why the volumes of the server's pod are not mounted: see [`plan::driver::until_next_mount_question`].
    pub mount_failure: Option<String>,
    /// The port at which the gateway serves this SparkConnect: that of its status, unless another one has it, else a free
    /// one. None without a gateway.
    pub gateway_port: Option<i32>,
}

/// The pod with the server's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPod {
    pub summary: PodSummary,
    /// Whether clients can connect.
    pub is_ready: bool,
    pub ip: Option<String>,
    /// The hash of what the pod was made from; none if Kubeflow's operator has made it.
    pub hash: Option<String>,
    /// When the pod has to be gone, if it is being deleted.
    pub deletion: Option<Timestamp>,
}

impl ServerPod {
    /// Builds the record of `pod`.
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

/// An object beside the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub key: ObjectKey,
    pub uid: String,
    /// Whether the SparkConnect controls the object.
    pub is_ours: bool,
    /// Whether it is a Service with a selector.
    pub has_selector: bool,
}

/// What to do and what to record. The actions are carried out first, then `wanted` is applied, then the status is written,
/// then the events are sent.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Plan {
    pub actions: Vec<Action>,
    /// The objects beside the pod as they have to be, for server-side apply of those that differ.
    pub wanted: Vec<Value>,
    pub status: SparkConnectStatus,
    pub events: Vec<Event>,
    /// When to look at the SparkConnect again if nothing happens before.
    pub wake: Option<Duration>,
}

/// One effect. Each effect can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates the server's pod, after the objects of `wanted`. If a pod has the name already, nothing is to be done. What
    /// the API server says against it is [`Observed::refusal`] of the next decision.
    CreateServer(Box<Value>),
    /// Deletes the server's pod if it still has this uid; `force` does not wait for its node.
    DeleteServer { name: String, uid: String, force: bool },
    /// Deletes an object beside the pod if it still has this uid.
    Delete { key: ObjectKey, uid: String },
    /// Deletes the SparkConnect itself, unless it has changed since it was read.
    DeleteConnect,
}

/// Returns the plan for `connect`, given the facts `seen`. It never fails and never waits.
pub fn next(connect: &SparkConnect, seen: &Observed, now: Timestamp, policy: &Policy) -> Plan {
    pass::plan(connect, seen, now, policy)
}
