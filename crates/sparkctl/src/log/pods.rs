//! Finds the pods in which Spark runs: the drivers of an application or the servers of a SparkConnect, one after the
//! other, with the executors of each.

use crate::{
    cluster::{Cluster, readable},
    failure::of_call,
    show,
};
use api::{
    SparkApplication, SparkConnect, State,
    names::{label, role},
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use spark_operator_client::{
    connect_summary,
    patience::{GRACE, in_time},
};
use std::fmt;

/// The application or SparkConnect whose pods are meant, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose<'a> {
    Application(&'a str),
    Connect(&'a str),
}

impl<'a> Whose<'a> {
    pub(crate) const fn name(self) -> &'a str {
        match self {
            Self::Application(name) | Self::Connect(name) => name,
        }
    }

    /// Returns the word for the pod that is not an executor.
    pub(crate) const fn pod(self) -> &'static str {
        match self {
            Self::Application(_) => "driver",
            Self::Connect(_) => "server",
        }
    }

    /// Reads what the object says about its pods. The inner result is an error if the object cannot be parsed.
    pub(super) async fn facts(self, cluster: &Cluster) -> Result<anyhow::Result<Facts>, kube::Error> {
        Ok(match self {
            Self::Application(name) => readable(cluster.look::<SparkApplication>(name).await?)
                .map(|application| Facts::of_application(&application)),
            Self::Connect(name) => {
                readable(cluster.look::<SparkConnect>(name).await?).map(|connect| Facts::of_connect(&connect))
            }
        })
    }

    /// Returns the message that there is no driver or server, with the state and the reason.
    pub(crate) async fn without_pod(self, cluster: &Cluster) -> anyhow::Result<String> {
        let Facts { state, .. } = self.facts(cluster).await.map_err(of_call)??;
        Ok(format!("{} has no {}: it is {state}", self.name(), self.pod()))
    }
}

impl fmt::Display for Whose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} of {}", self.pod(), self.name())
    }
}

/// What an object says about its pods.
pub(super) struct Facts {
    /// The name of the driver or server, if it is known.
    pod: Option<String>,
    /// A label that all pods of the present run or of the SparkConnect have, executors too. It is compared because a
    /// pod that does not belong to it may have the same name.
    run_label: (&'static str, Option<String>),
    /// Whether no other driver or server will be created unless a user changes the object, or a client wakes the
    /// server.
    pub has_ended: bool,
    /// The state and its reason.
    pub state: String,
}

impl Facts {
    pub(super) fn of_application(application: &SparkApplication) -> Self {
        let status = application.status.as_ref();
        let ends = matches!(application.state(), State::Completed | State::Failed | State::Suspended);
        Self {
            pod: status.and_then(|status| status.driver_info.pod_name.clone()),
            run_label: (label::SUBMISSION_ID, status.and_then(|status| status.submission_id.clone())),
            has_ended: ends && application.is_settled(),
            state: show::state_and_why(application),
        }
    }

    fn of_connect(connect: &SparkConnect) -> Self {
        Self {
            pod: Some(connect::names::server(connect)),
            run_label: (label::CONNECT_NAME, Some(connect.name_any())),
            has_ended: connect_summary::rests(connect),
            state: connect_summary::state_and_why(connect),
        }
    }

    /// Returns the pod of the driver or server, if it exists.
    pub(super) async fn pod(&self, cluster: &Cluster) -> Result<Option<Pod>, kube::Error> {
        let Some(name) = &self.pod else { return Ok(None) };
        let pod = in_time(GRACE, cluster.api::<Pod>().get_opt(name)).await??;
        let (key, value) = &self.run_label;
        Ok(pod.filter(|pod| value.is_none() || pod.labels().get(*key) == value.as_ref()))
    }

    /// Returns the label selector of the executors.
    pub(super) fn executors(&self) -> String {
        let (key, value) = &self.run_label;
        format!("{key}={},{}={}", value.as_deref().unwrap_or_default(), label::SPARK_ROLE, role::EXECUTOR)
    }
}
