//! Determines whether the pod with the driver's name belongs to the run, and how it has failed.

use crate::between;
use api::excerpt::{self, LONGEST_EXPLANATION};
use jiff::Timestamp;
use pods::{Ended, Phase, PodSummary};
use std::time::Duration;
use submission::{monitoring, run::SubmissionId};

/// To whom the existing pod with the driver's name belongs, seen from the run that is about to be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The pod is the driver of this run. The operator follows this pod and creates no other driver.
    Adoptable,
    /// The pod belongs to this run, but its submission may still be creating other objects that the driver needs. The
    /// operator waits.
    InTheMaking,
    /// The pod belongs to this application, but to another run, or it is incomplete or being deleted. It must be gone
    /// before a driver is created.
    Leftover,
    /// The pod has another owner. The operator neither follows nor deletes it.
    Foreign,
}

/// The age at which an incomplete driver pod counts as left behind by a submission that has stopped. `spark-submit`
/// creates a pod and all objects that belong to it within 0.4 s, so an older incomplete pod was left behind, unless its
/// submission pod is still at work. A younger pod may have been created by a `spark-submit` whose own pod was removed
/// by force; deleting the younger pod would start a second driver.
const MAKING: Duration = Duration::from_secs(10);

/// The time for which a driver or a submission pod may be silent (see [`silence`]), for example while its volumes are
/// mounted, before the operator looks for the reason.
pub const SILENCE: Duration = Duration::from_secs(15);

/// The maximum pause between two lookups of the reason why one pod does not start.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Returns how long to wait before the next lookup of why a pod does not start; `None` if the pod is not silent.
pub fn until_next_lookup(pod: &PodSummary, now: Timestamp) -> Option<Duration> {
    silence(pod, now).map(|waited| waited.clamp(SILENCE, LONGEST_PAUSE))
}

/// Returns the time since the pod was assigned to a node; `None` unless the pod is still pending and does not report
/// what it waits for. A pod that has a sandbox waits only for images and init containers, so the events about its
/// volumes and its network are out of date.
pub fn silence(pod: &PodSummary, now: Timestamp) -> Option<Duration> {
    let is_silent = pod.phase == Phase::Pending && !pod.has_sandbox && !pod.started && pod.waiting.is_none();
    pod.assigned.filter(|_| is_silent).map(|assigned| between(assigned, now))
}

/// Returns the time since the pod was created; zero if the creation time is not known.
pub fn age(pod: &PodSummary, now: Timestamp) -> Duration {
    pod.created.map(|created| between(created, now)).unwrap_or_default()
}

/// Returns how the pod with the driver's name relates to the run `id` of the application with this uid. `complete` is whether every
/// object that the submission had to create exists.
pub fn standing(pod: &PodSummary, complete: bool, uid: &str, id: &SubmissionId, now: Timestamp) -> Standing {
    if !pod.is_controlled_by(uid) {
        return Standing::Foreign;
    }
    if pod.submission_id.as_deref() != Some(id.as_str()) || pod.terminating {
        return Standing::Leftover;
    }
    // A pod whose container has started had all objects that it needs, even if its ConfigMap was deleted since.
    if complete || pod.started {
        return Standing::Adoptable;
    }
    if pod.created.is_some() && age(pod, now) < MAKING { Standing::InTheMaking } else { Standing::Leftover }
}

/// Returns exit code and reason of a pod's Spark container, and what the reason does not say: what helps, or that the
/// pod was deleted. Kubernetes sets the message of a pod that it evicts, but not that of a pod that somebody deletes.
pub(crate) fn end(pod: &PodSummary, ended: &Ended) -> String {
    let Ended { exit_code, reason, .. } = ended;
    let more = match (&**reason, exit_code) {
        ("OOMKilled", _) => {
            " (it needed more memory than its limit: raise memoryLimit if it is set, else memoryOverhead)"
        }
        // The exit codes after the signals SIGKILL and SIGTERM.
        (_, 137 | 143) if pod.terminating && pod.message.is_none() => " (its pod was deleted)",
        _ => "",
    };
    format!("ExitCode: {exit_code}, Reason: {reason}{more}")
}

/// Returns why a driver failed, in the words of Kubeflow's operator, followed by the message in the pod's status.
pub fn failure(pod: &PodSummary) -> String {
    let (said, message) = match &pod.ended {
        Some(ended) if ended.exit_code != 0 => {
            (format!("driver container failed with {}", end(pod, ended)), ended.message.as_ref())
        }
        _ => ("driver container status missing".to_owned(), None),
    };
    const MESSAGE: &str = ", Message: ";
    let of_pod = pod.message.as_ref().map_or_else(String::new, |message| format!(": {message}"));
    let message = message.map_or_else(String::new, |words| {
        let words = monitoring::explained(words).unwrap_or_else(|| words.clone());
        // If the message is too long, its end is kept: the end of a program's output matters most.
        let room = LONGEST_EXPLANATION.saturating_sub(said.len() + MESSAGE.len() + of_pod.len());
        format!("{MESSAGE}{}", excerpt::end(words, room))
    });
    excerpt::explanation(said + &message + &of_pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    /// In an earlier version, the status named a volume that was mounted already, while a large image was pulled.
    #[test]
    fn a_pod_is_silent_until_its_volumes_are_mounted_and_its_network_is_set_up() {
        let silent_for = |conditions: &[&str]| {
            let at = "2026-11-21T08:00:00Z";
            let holds = |what: &&str| json!({"type": what, "status": "True", "lastTransitionTime": at});
            let conditions: Vec<_> = conditions.iter().map(holds).collect();
            let pod = json!({
                "metadata": {"labels": {"spark-role": "driver"}},
                "status": {"phase": "Pending", "conditions": conditions},
            });
            silence(&PodSummary::of(&from_value(pod).unwrap()), "2026-11-21T08:01:00Z".parse().unwrap())
        };
        assert_eq!(silent_for(&[]), None);
        assert_eq!(silent_for(&["PodScheduled"]), Some(Duration::from_secs(60)));
        assert_eq!(silent_for(&["PodScheduled", "PodReadyToStartContainers"]), None);
    }
}
