//! How far a submission has come, read from its pod.

use crate::{
    pod_record::{Phase, PodRecord},
    submission::failure,
};

/// How far the submission has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// `spark-submit` does not run yet: what the pod waits for, where Kubernetes says so (`ImagePullBackOff: …`).
    Waiting(Option<String>),
    /// `spark-submit` is running.
    Working,
    /// `spark-submit` has ended with exit code 0.
    Succeeded,
    /// There was a pod of the driver's name already. That is no failure: whose pod it is decides what is next.
    DriverExists,
    /// Why there is no driver, in words for the user.
    Failed(String),
    /// Somebody has deleted the pod before `spark-submit` had ended; it is made anew when it is gone.
    Leaving,
}

impl State {
    /// Whether `spark-submit` may still make a driver.
    #[must_use]
    pub const fn may_go_on(&self) -> bool {
        matches!(self, Self::Waiting(_) | Self::Working | Self::Leaving)
    }
}

/// The reason that Kubernetes gives for a pod that has outlived its `activeDeadlineSeconds`.
const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
const FAILED: &str = "failed to run spark-submit";

/// The state of a submission pod. The exit of the container in which `spark-submit` runs counts, not the pod's phase: a
/// sidecar that somebody has injected may run on.
#[must_use]
pub fn state(pod: &PodRecord) -> State {
    if pod.ended.as_ref().is_some_and(|ended| ended.exit_code == 0) {
        return State::Succeeded;
    }
    if pod.terminating {
        return State::Leaving;
    }
    let of_pod = pod.message.as_deref();
    if let Some(why) = of_pod.filter(|why| pod.phase == Phase::Failed && why.starts_with(DEADLINE_EXCEEDED)) {
        return State::Failed(format!("{FAILED}: it took longer than --spark-submit-timeout allows ({why})"));
    }
    match (&pod.ended, pod.phase) {
        (Some(ended), _) => {
            let said = ended.message.as_deref().unwrap_or_default();
            if failure::is_driver_there(said) {
                return State::DriverExists;
            }
            let how = || match of_pod {
                Some(why) => format!("its pod failed: {why}"),
                None => format!("exit code {}, {}", ended.exit_code, ended.reason),
            };
            State::Failed(format!("{FAILED}: {}", failure::cause(said).unwrap_or_else(how)))
        }
        (None, Phase::Failed) => {
            let why = of_pod.unwrap_or("Kubernetes does not say why");
            State::Failed(format!("{FAILED}: its pod failed: {why}"))
        }
        // Kubernetes says so of a pod whose containers have all ended with 0.
        (None, Phase::Succeeded) => State::Succeeded,
        (None, Phase::Unknown) => State::Waiting(Some("the node does not answer".to_owned())),
        (None, Phase::Pending | Phase::Running) if pod.started => State::Working,
        (None, Phase::Pending | Phase::Running) => State::Waiting(pod.waiting_for()),
    }
}
