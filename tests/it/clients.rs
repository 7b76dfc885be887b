//! Proves that no story of the lifecycle leads a program that reads applications to a wrong conclusion. Each file in
//! `tests/data/clients` has what one such program concludes from each state, according to its source code.

use crate::{
    lifecycle::{Decided, steps},
    prelude::*,
};
use api::{ExecutorState, SparkApplicationStatus, State, names::condition};
use plan::{Driver, Plan};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    pub(crate) client: String,
    /// The repository, file and commit of the code that draws the conclusions.
    source: String,
    /// The label without which the program ignores an application; `None` if it ignores none.
    label: Option<String>,
    /// The conclusion from each state. The state of a new application is called `absent`.
    pub(crate) concludes: BTreeMap<String, Conclusion>,
    /// The states after which an application may continue, but which the program takes for final, each with the reason
    /// why this is accepted. Kubeflow's operator writes the same states.
    #[serde(default)]
    early: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Conclusion {
    Waits,
    Works,
    /// Healthy, whether the application has ended or not.
    Well,
    Succeeded,
    Failed,
}

impl Conclusion {
    /// Whether this conclusion is right for an application with this status.
    fn fits(self, status: &SparkApplicationStatus) -> bool {
        let is_stalled = || status.conditions.iter().any(|it| it.type_ == condition::STALLED);
        match status.application_state.state {
            State::Completed => matches!(self, Self::Well | Self::Succeeded),
            State::Failed => self == Self::Failed,
            // There is no retry, and FAILED follows.
            State::SubmissionFailed if is_stalled() => self != Self::Succeeded,
            _ => matches!(self, Self::Waits | Self::Works | Self::Well),
        }
    }
}

#[test]
fn no_client_takes_an_application_for_ended_before_it_has_ended() {
    let clients = clients();
    let (wrong, early) = conclusions(&clients, &steps());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known = clients.iter().flat_map(|Client { client, early, .. }| {
        early.keys().map(move |state| (client.as_str(), state.clone()))
    });
    assert_eq!(
        early,
        known.collect::<BTreeSet<_>>(),
        "the `early` states of the clients are those that occur"
    );
}

/// Returns the wrong conclusions, and each client and state whose conclusion is wrong but listed as `early`.
fn conclusions<'c>(clients: &'c [Client], steps: &[Decided]) -> (Vec<String>, BTreeSet<(&'c str, String)>) {
    let (mut wrong, mut early) = (Vec::new(), BTreeSet::new());
    for (context, application, _, Plan { status, .. }) in steps {
        let status_json = json!(status);
        // Argo CD and Prefect fail where a status has no `applicationState`.
        let state = &status_json["applicationState"];
        assert!(state.is_object(), "{context}: {status_json}");
        let state = state["state"].as_str().unwrap_or("absent");
        for Client { client, concludes, early: known, .. } in
            clients.iter().filter(|client| client.looks_at(application))
        {
            let conclusion = concludes[state];
            if conclusion.fits(status) {
                continue;
            }
            if known.contains_key(state) {
                early.insert((client.as_str(), state.to_owned()));
            } else {
                wrong.push(format!("{context}: {client} concludes {conclusion:?} from {state}"));
            }
        }
    }
    (wrong, early)
}

/// Kubeflow's operator writes SUBMISSION_FAILED before each retry, and SUSPENDING before the pods are gone.
#[test]
fn states_that_mislead_kueue_are_found() {
    let mut steps = steps();
    for (.., plan) in &mut steps {
        let state = &mut plan.status.application_state;
        let why = state.error_message.as_deref().unwrap_or_default();
        state.state = match state.state {
            State::Resuming if !why.is_empty() => State::SubmissionFailed,
            State::Running if why.starts_with("Suspending: ") => State::Suspending,
            other => other,
        };
    }
    let clients = clients();
    let (wrong, _) = conclusions(&clients, &steps);
    assert!(!wrong.is_empty() && wrong.iter().all(|it| it.contains("Kueue concludes Failed")), "{wrong:?}");
    assert!(gives_back(&steps).iter().any(|(_, is_gone)| !is_gone));
}

/// The rules of kstatus: kubernetes-sigs/cli-utils, pkg/kstatus/status/generic.go,
/// 321951179c8f76296f4e5a6bd2b9d1f15aeb3f95.
#[test]
fn flux_and_helm_see_each_application_as_it_is() {
    for (context, application, _, Plan { status, .. }) in steps() {
        let seen = status.observed_generation;
        let is_true =
            |type_: &str| status.conditions.iter().any(|it| it.type_ == type_ && it.status == "True");
        let is_behind = seen.is_some() && seen != application.metadata.generation;
        let conclusion = if is_behind || is_true(condition::RECONCILING) {
            Conclusion::Works
        } else if is_true(condition::STALLED) {
            Conclusion::Failed
        } else {
            Conclusion::Well
        };
        assert!(conclusion.fits(&status), "{context}: {conclusion:?}");
    }
}

#[test]
fn kueue_gives_no_quota_away_before_the_pods_are_gone() {
    let steps = steps();
    let given = gives_back(&steps);
    assert!(!given.is_empty() && given.iter().all(|(_, is_gone)| *is_gone), "{given:?}");
}

/// Returns the steps in which Kueue gives the quota of an application to another one, each with whether the pods of the
/// former are gone.
fn gives_back(steps: &[Decided]) -> Vec<(&str, bool)> {
    let mut given = Vec::new();
    for (context, application, seen, Plan { status, .. }) in steps {
        let is_queued = application.metadata.labels.iter().flatten().any(|(key, _)| key == label::QUEUE_NAME);
        let gives =
            application.state() == State::Running && status.application_state.state == State::Suspending;
        if is_queued && gives {
            given.push((context.as_str(), seen.driver == Driver::Gone && seen.executors.is_empty()));
        }
    }
    given
}

/// Kueue waits some minutes (`waitForPodsReady`) until `status.executorState` has as many executors that run or have
/// completed as `spec.executor.instances` says.
#[test]
fn kueue_sees_within_a_second_that_executors_run() {
    let mut collected = 0;
    for (context, _, seen, Plan { status, wake, .. }) in steps() {
        let is_seen = matches!(seen.driver, Driver::Pod { .. });
        if !is_seen || status.application_state.state != State::Running {
            continue;
        }
        let mut running = seen.executors.iter().filter(|pod| pod.state() == ExecutorState::Running);
        if !running.all(|pod| status.executor_state.get(&pod.name) == Some(&ExecutorState::Running)) {
            assert!(wake.is_some_and(|wake| wake <= Duration::from_secs(1)), "{context}");
            collected += 1;
        }
    }
    assert!(collected > 0);
}

/// Airflow adds a label (`already_checked`) to a driver that it has followed to its end, which must not depend on a
/// webhook that may be down.
#[test]
fn no_webhook_reviews_the_labels_that_airflow_adds_to_a_driver() {
    let configurations = documents("manifests/webhook/pods.yaml");
    let webhooks = configurations.iter().flat_map(|it| it["webhooks"].as_array().into_iter().flatten());
    let rules = webhooks.flat_map(|webhook| webhook["rules"].as_array().into_iter().flatten());
    let of_pods: Vec<_> = rules.filter(|rule| rule["resources"] == json!(["pods"])).collect();
    assert!(!of_pods.is_empty());
    assert!(of_pods.iter().all(|rule| rule["operations"] == json!(["CREATE"])), "{of_pods:?}");
}

impl Client {
    fn looks_at(&self, application: &SparkApplication) -> bool {
        let mut labels = application.metadata.labels.iter().flatten();
        self.label.as_ref().is_none_or(|label| labels.any(|(key, _)| key == label))
    }
}

pub(crate) fn clients() -> Vec<Client> {
    let files = fs::read_dir(data("clients")).unwrap().map(|entry| entry.unwrap().path());
    let clients: Vec<Client> = files.map(|file| yaml(&file)).collect();
    for Client { client, source, concludes, early, .. } in &clients {
        let has_commit = source.rsplit(", ").next().is_some_and(|commit| commit.len() == 40);
        assert!(has_commit, "{client}: {source}");
        for state in State::ALL {
            let state = if state == State::New { "absent" } else { state.as_str() };
            assert!(concludes.contains_key(state), "{client}: {state}");
        }
        assert!(early.values().all(|why| !why.is_empty()), "{client}");
    }
    assert!(clients.len() >= 9);
    clients
}
