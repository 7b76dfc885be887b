//! Builds the summaries of pods that are the input of the decision core.

use super::{
    oracle::{FOREIGN, Oracle, UID, then},
    world::{Executor, Exit, Made, NO_TEMPLATE, Phase, Pod, RunNo, Stage, SubmissionPod},
};
use api::{
    Role, SparkApplication,
    names::{annotation, batch_scheduler},
};
use plan::Policy;
use pods::{Controller, Ended, Particulars, Phase as PodPhase, PodSummary, Waiting};
use submission::{self, SubmissionEnvironment, run::Run};
use validation::validate;

impl Oracle {
    pub fn driver(&self, pod: Pod, name: u8) -> PodSummary {
        let record = record(name_of(name), pod.uid, pod.phase, pod.terminating);
        let Some(run) = pod.run else { return record };
        let config_map = if self.is_native() {
            self.config_maps[&run.ordinal].clone()
        } else {
            format!("spark-drv-{}-conf-map", pod.uid)
        };
        let group = self.is_grouped().then_some((batch_scheduler::VOLCANO_GROUP, "spark-pi-pg"));
        let known = (pod.template != NO_TEMPLATE).then(|| &*self.templates[usize::from(pod.template)]);
        let template = (annotation::TEMPLATE, known.unwrap_or_default());
        let marks = group.into_iter().chain(self.is_partial().then_some(template));
        let marks: Box<[_]> = marks.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        PodSummary {
            application: Some("pi".to_owned()),
            role: Some(Role::Driver),
            submission_id: Some(self.ids[&run].to_string()),
            controller: Some(controller("SparkApplication", "pi", UID)),
            protected: pod.protected,
            particulars: (!marks.is_empty())
                .then(|| Box::new(Particulars { marks, ..Particulars::default() })),
            driver_config_map: Some(config_map),
            ..record
        }
    }

    pub fn executor(&self, executor: &Executor) -> PodSummary {
        let Executor { uid, run, owner, ended, terminating } = *executor;
        let phase = if ended { Phase::Succeeded } else { Phase::Running };
        PodSummary {
            application: Some("pi".to_owned()),
            role: Some(Role::Executor),
            submission_id: Some(self.ids[&run].to_string()),
            executor_id: Some(uid.into()),
            controller: Some(controller("Pod", "driver", &format!("d{owner}"))),
            ..record(&format!("pi-exec-{uid}"), uid, phase, terminating)
        }
    }

    pub fn submission_pod(&self, pod: &SubmissionPod) -> PodSummary {
        let SubmissionPod { uid, run, stage, terminating, .. } = *pod;
        let ended = |exit_code, said: &str| Ended {
            exit_code,
            reason: "Error".to_owned(),
            message: Some(said.to_owned()),
        };
        let why = if self.setting.has_messages { OVERDUE } else { EVICTED };
        let has_ended = |phase| if self.setting.has_sidecar { PodPhase::Running } else { phase };
        let (phase, ended) = match stage {
            Stage::Pending | Stage::Held => (PodPhase::Pending, None),
            Stage::Working => (PodPhase::Running, None),
            Stage::Lost => (PodPhase::Failed, None),
            Stage::Ended(Exit::Done) => (has_ended(PodPhase::Succeeded), Some(ended(0, ""))),
            Stage::Ended(Exit::Failed) => (has_ended(PodPhase::Failed), Some(ended(1, EXCEPTION))),
            Stage::Ended(Exit::DriverExists) => (has_ended(PodPhase::Failed), Some(ended(1, DRIVER_EXISTS))),
        };
        PodSummary {
            name: self.config_maps[&run.ordinal].clone(),
            uid: format!("d{uid}"),
            application: Some("pi".to_owned()),
            submits: true,
            submission_id: Some(self.ids[&run].to_string()),
            controller: Some(controller("SparkApplication", "pi", UID)),
            created: Some(then()),
            started: phase != PodPhase::Pending && stage != Stage::Lost,
            phase,
            ended,
            terminating,
            message: (stage == Stage::Lost).then(|| why.to_owned()),
            waiting: (stage == Stage::Held)
                .then(|| Waiting { reason: "ImagePullBackOff".to_owned(), message: None }),
            ..PodSummary::default()
        }
    }

    /// Returns a pod of another owner with the name and the labels of the first run's submission pod.
    pub fn foreign_submission_pod(&self) -> PodSummary {
        let run = RunNo { ordinal: 1, spec: 0 };
        let pod = SubmissionPod {
            uid: FOREIGN,
            run,
            stage: Stage::Working,
            terminating: false,
            made: Made::Nothing,
        };
        PodSummary {
            controller: Some(controller("ReplicaSet", "other", "other")),
            ..self.submission_pod(&pod)
        }
    }
}

const EVICTED: &str = "Evicted: The node was low on resource: memory.";
const OVERDUE: &str = "DeadlineExceeded: Pod was active on the node longer than the specified deadline";
const EXCEPTION: &str = "Exception in thread \"main\" java.lang.IllegalArgumentException: no";
const DRIVER_EXISTS: &str = "Caused by: io.fabric8.kubernetes.client.KubernetesClientException: \
    Status(code=409, details=StatusDetails(kind=pods, name=pi-driver), reason=AlreadyExists)";

/// Returns a summary with the fields that all kinds of pods have.
fn record(name: &str, uid: u8, phase: Phase, terminating: bool) -> PodSummary {
    let ended = |exit_code, reason: &str| Ended { exit_code, reason: reason.to_owned(), message: None };
    let (phase, ended) = match phase {
        Phase::Pending => (PodPhase::Pending, None),
        Phase::Running => (PodPhase::Running, None),
        Phase::Unknown => (PodPhase::Unknown, None),
        Phase::Succeeded => (PodPhase::Succeeded, Some(ended(0, "Completed"))),
        Phase::Failed => (PodPhase::Failed, Some(ended(1, "Error"))),
    };
    PodSummary {
        name: name.to_owned(),
        uid: format!("d{uid}"),
        created: Some(then()),
        started: phase != PodPhase::Pending,
        phase,
        ended,
        terminating,
        ..PodSummary::default()
    }
}

fn controller(kind: &str, name: &str, uid: &str) -> Controller {
    Controller { kind: kind.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
}

/// Returns the name of the ConfigMap that a native submission creates for the driver of a run.
pub fn config_map(application: &SparkApplication, run: &Run, policy: &Policy) -> String {
    let application = &validate(application).unwrap();
    let native =
        submission::objects(application, run, &policy.submission, &SubmissionEnvironment::default(), then());
    let pod = serde_json::from_value(native.unwrap().0.pod).unwrap();
    PodSummary::of(&pod).driver_config_map.unwrap()
}

pub const fn name_of(number: u8) -> &'static str {
    if number == 0 { "pi-driver" } else { "other-driver" }
}

pub fn number_of(name: &str) -> u8 {
    (0..).find(|number| name_of(*number) == name).unwrap()
}
