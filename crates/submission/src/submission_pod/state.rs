//! Determines the progress of a submission from its submission pod.

use pods::{Phase, PodSummary};
use spark_client::failure;

/// The progress of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// `spark-submit` does not run yet. Contains what the pod waits for, if Kubernetes reports it
    /// (`ImagePullBackOff: …`).
    Waiting(Option<String>),
    /// `spark-submit` is running.
    Working,
    /// `spark-submit` has ended with exit code 0.
    Succeeded,
    /// A pod with the driver's name existed already. This is no failure: the next step depends on the owner of that
    /// pod.
    DriverExists,
    /// The submission has failed, and no driver exists. Contains the reason, in words for the user.
    Failed(String),
    /// The pod was deleted before `spark-submit` ended. A new pod is created when this pod is gone.
    Leaving,
}

impl State {
    /// Whether `spark-submit` may still create a driver.
    pub const fn may_go_on(&self) -> bool {
        matches!(self, Self::Waiting(_) | Self::Working | Self::Leaving)
    }
}

/// The reason that Kubernetes gives for a pod that has exceeded its `activeDeadlineSeconds`.
const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
const FAILED: &str = "failed to run spark-submit";

/// Returns the progress of the submission of which `pod` is the submission pod. The exit of the container in which
/// `spark-submit` runs decides, not the pod's phase: an injected sidecar may keep running.
pub fn state(pod: &PodSummary) -> State {
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
        // Kubernetes reports this phase only if all containers of a pod have ended with exit code 0.
        (None, Phase::Succeeded) => State::Succeeded,
        (None, Phase::Unknown) => State::Waiting(Some("the node does not answer".to_owned())),
        (None, Phase::Pending | Phase::Running) if pod.started => State::Working,
        (None, Phase::Pending | Phase::Running) => State::Waiting(pod.waiting_for()),
    }
}
