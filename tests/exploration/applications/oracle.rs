//! Calls the decision core (`crates/plan`) once for each input and keeps the results, because a model needs the same
//! decision a million times.
//!
//! All times in a status are replaced by one fixed time. `now` is either that time, so that no timer has elapsed, or a
//! year later, so that all timers have elapsed.

use super::{
    mutation::Mutation,
    records::{config_map, name_of, number_of},
    world::*,
};
use crate::{decision::Decision, explorer::Memory};
use api::{
    ObjectKey, SparkApplication, SparkApplicationSpec, SparkApplicationStatus, State,
    names::{annotation, label},
};
use batch_schedulers::{VOLCANO, is_of_groups};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::{
    Action, Driver, Observed, Plan, Policy, Submission, SubmissionProgress,
    auxiliary::{AuxiliaryAction, AuxiliaryObject, AuxiliaryObjects},
    extension::ComingRun,
    lifecycle::{self, Questions, knows_all_pods, questions},
    submission_plan::Submitter,
};
use pods::Phase as PodPhase;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    rc::Rc,
};
use submission::{
    driver_pod_name,
    executor_template::ExecutorTemplate,
    run::{Run, SubmissionId},
    spec_hash::is_hash_of,
    submission_pod,
};
use validation::validate;

pub const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";
/// The uid of a pod of another owner.
pub const FOREIGN: u8 = 0;
/// The highest ordinal of a run that is explored.
const ORDINALS: u8 = 7;

/// The model's form of [`Observed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub driver: SeenDriver,
    pub executors: [Option<Executor>; EXECUTORS],
    pub stray_drivers: [Option<Pod>; NAMES],
    pub stray_executors: [Option<Executor>; EXECUTORS],
    /// The submission pods in the operator's cache.
    pub submission_pods: [Option<SubmissionPod>; SUBMISSION_PODS],
    /// The submission pod that the operator has read from the API server.
    pub live_submission_pod: Option<SubmissionPod>,
    pub stray_submission_pods: [Option<SubmissionPod>; SUBMISSION_PODS],
    pub departed: Departed,
    pub has_written: bool,
    pub made: bool,
    pub submission: Option<(RunNo, Progress)>,
    pub group: Option<RunNo>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeenDriver {
    Unseen,
    Gone,
    Pod { pod: Pod, name: u8, complete: bool },
}

/// An action of the operator, reduced to what the model compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Submit {
        run: RunNo,
        name: u8,
    },
    StopSubmission,
    Make,
    DeleteChildren {
        /// The ordinals of the runs whose ConfigMaps are deleted, one bit each.
        config_maps: u32,
        group: bool,
    },
    DeletePod {
        name: u8,
        uid: u8,
    },
    DeleteSubmissionPod {
        place: u8,
        uid: u8,
    },
    DeleteExecutor(u8),
    /// Deletes the pod group, which no run needs, if it is still that of this run.
    DeleteGroup(RunNo),
    /// Creates the pod group of this run, or changes the existing group to it.
    RestoreGroup(RunNo),
    RenewTemplate {
        name: u8,
        uid: u8,
        template: u8,
    },
    Protect {
        name: u8,
        uid: u8,
        protect: bool,
    },
    DeleteApplication,
}

/// The parts of a status that matter to the model.
#[derive(Clone, Debug)]
pub struct Facts {
    pub state: State,
    pub run: Option<RunNo>,
    pub ordinal: u8,
    pub executions: i32,
    pub submissions: i32,
    /// The specs whose hash is the recorded one, one bit each.
    pub specs: u8,
    pub generation: Option<u8>,
    pub rerun: u8,
    pub has_time: bool,
}

impl Facts {
    /// Whether the recorded hash is that of this spec.
    pub const fn is_of(&self, spec: u8) -> bool {
        self.specs & (1 << spec) != 0
    }
}

/// The facts that the controller derives from an application before it observes other objects.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub questions: Questions,
    /// The number of the driver's name.
    pub name: u8,
    pub next: RunNo,
}

/// The settings of the application and of the operator, which stay the same during an exploration.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The fields that all specs have.
    pub spec: Value,
    /// The numbers of the driver's names, by the numbers of specs.
    pub names: [u8; SPECS],
    pub policy: Policy,
    /// Whether the application is in a queue of Kueue.
    pub is_queued: bool,
    /// Whether every submission pod has a sidecar that does not end.
    pub has_sidecar: bool,
    /// Whether statuses keep the message about a submission pod that has not ended.
    pub has_messages: bool,
    /// Whether a pod of another owner has the name and the labels of the first run's submission pod.
    pub has_foreign_submission_pod: bool,
}

pub struct Oracle {
    pub setting: Setting,
    mutation: Option<Mutation>,
    statuses: Vec<(SparkApplicationStatus, Facts)>,
    status_numbers: HashMap<String, u32>,
    decisions: Vec<Decision<Act>>,
    applications: Memory<Application, Rc<SparkApplication>>,
    groups: Memory<(Application, RunNo), Option<AuxiliaryObject>>,
    known: Memory<(Application, Seen, bool), u32>,
    asked: Memory<Application, Asked>,
    trusted: Memory<(Application, Departed, Option<u8>), bool>,
    runs: BTreeMap<SubmissionId, RunNo>,
    pub ids: BTreeMap<RunNo, SubmissionId>,
    /// The names of ConfigMaps by the ordinals of runs: of the driver with native submission, else of the submission
    /// pod.
    pub config_maps: BTreeMap<u8, String>,
    specs: Vec<SparkApplicationSpec>,
    /// The fingerprints of the executors' templates, by the numbers of specs.
    pub templates: Vec<String>,
}

impl Oracle {
    pub fn new(setting: Setting, mutation: Option<Mutation>) -> Self {
        let mut oracle = Self {
            setting,
            mutation,
            statuses: Vec::new(),
            status_numbers: HashMap::new(),
            decisions: Vec::new(),
            applications: Memory::default(),
            groups: Memory::default(),
            known: Memory::default(),
            asked: Memory::default(),
            trusted: Memory::default(),
            runs: BTreeMap::new(),
            ids: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            specs: Vec::new(),
            templates: Vec::new(),
        };
        oracle.number(SparkApplicationStatus::default());
        for spec in 0..oracle.spec_count() {
            let fresh = oracle.real(&super::model::fresh(spec));
            let settings = &oracle.setting.policy.submission;
            let template =
                ExecutorTemplate::of(&validate(&fresh).unwrap(), &Run::next(&fresh), settings).unwrap();
            oracle.templates.push(template.fingerprint());
            oracle.specs.push(fresh.spec);
            for ordinal in 1..=ORDINALS + 1 {
                let mut application = oracle.real(&super::model::fresh(spec));
                let before = (ordinal > 1).then(|| i64::from(ordinal - 1));
                application.status =
                    Some(SparkApplicationStatus { run_ordinal: before, ..Default::default() });
                let run = Run::next(&application);
                let number = RunNo { ordinal, spec };
                let config_map = if oracle.is_native() {
                    config_map(&application, &run, &oracle.setting.policy)
                } else {
                    submission_pod::name(&application, &run)
                };
                oracle.config_maps.insert(ordinal, config_map);
                oracle.ids.insert(number, run.id.clone());
                oracle.runs.insert(run.id, number);
            }
        }
        oracle
    }

    pub fn is_native(&self) -> bool {
        self.setting.policy.submitter == Submitter::Native
    }

    /// Whether an edit of fields of the executors' template does not end a run (`--partial-restart`).
    pub const fn is_partial(&self) -> bool {
        self.setting.policy.partial_restart
    }

    /// Returns the number of specs that the application may have.
    pub const fn spec_count(&self) -> u8 {
        if self.is_partial() { 3 } else { 2 }
    }

    /// Returns the number of a spec's executors' template: the number of the first spec with the same template.
    pub fn template(&self, spec: u8) -> u8 {
        self.template_number(&self.templates[usize::from(spec)])
    }

    fn template_number(&self, fingerprint: &str) -> u8 {
        (0..).zip(&self.templates).find(|(_, known)| *known == fingerprint).unwrap().0
    }

    /// Whether a batch scheduler schedules the pods of the application as a group.
    pub fn is_grouped(&self) -> bool {
        self.setting.policy.extensions.iter().next().is_some()
    }

    pub fn facts(&self, status: u32) -> &Facts {
        &self.statuses[status as usize].1
    }

    pub fn decision(&self, plan: u32) -> &Decision<Act> {
        &self.decisions[plan as usize]
    }

    /// Returns the facts that the controller derives from an application before it observes other objects.
    pub fn asked(&mut self, application: &Application) -> Asked {
        if let Some(asked) = self.asked.get(application) {
            return *asked;
        }
        let real = self.kept(application);
        let questions = questions(&real);
        // The same choice as in `controller::observe`.
        let recorded = real.status.as_ref().and_then(|status| status.driver_info.pod_name.clone());
        let name = recorded.filter(|_| !questions.launch).unwrap_or_else(|| driver_pod_name(&real));
        let asked = Asked { questions, name: number_of(&name), next: self.runs[&Run::next(&real).id] };
        self.asked.insert(*application, asked);
        asked
    }

    /// Whether the decision core relies on the cache for the fact that no other pods exist.
    pub fn knows_all_pods(
        &mut self,
        application: &Application,
        departed: Departed,
        ended: Option<u8>,
    ) -> bool {
        let question = (*application, departed, ended);
        if let Some(trusted) = self.trusted.get(&question) {
            return *trusted;
        }
        let departed = departed.map(|(name, pod)| self.driver(pod, name));
        let ended = ended.map(|uid| format!("d{uid}"));
        let trusted = knows_all_pods(&self.kept(application), departed.as_ref(), ended.as_deref());
        self.trusted.insert(question, trusted);
        trusted
    }

    /// Returns the number of the decision core's plan for this input: see [`Self::decision`].
    pub fn next(&mut self, application: &Application, seen: &Seen, late: bool) -> u32 {
        let question = (*application, *seen, late);
        if let Some(plan) = self.known.get(&question) {
            return *plan;
        }
        let real = self.kept(application);
        let group = seen.group.and_then(|run| self.group(application, run));
        let observed = self.observed(application, seen, group);
        let now = if late { long_after() } else { then() };
        let mut plan = self.mutated(&real, &observed, now);
        let wrong = self.wrong(&real, &observed, now, &plan);
        unsaid(&real, &mut plan.status, self.setting.has_messages);
        let writes = real.status.clone().unwrap_or_default() != plan.status;
        let restored = plan.auxiliary.iter().filter_map(|action| self.about_group(action, seen.group));
        let acts = plan.actions.iter().map(|action| self.act(action)).chain(restored).collect();
        let status = if writes { self.number(plan.status) } else { application.status };
        self.decisions.push(Decision { acts, status, writes, wrong });
        let plan = u32::try_from(self.decisions.len() - 1).unwrap();
        self.known.insert(question, plan);
        plan
    }

    /// Returns the decision core's plan, with the seeded bug of this exploration if it has one.
    fn mutated(&self, real: &SparkApplication, observed: &Observed, now: Timestamp) -> Plan {
        let policy = &self.setting.policy;
        let Some(mutation) = self.mutation else { return lifecycle::next(real, observed, now, policy) };
        let (mut real, mut observed) = (real.clone(), observed.clone());
        mutation.of_question(&mut real, &mut observed);
        let mut plan = lifecycle::next(&real, &observed, now, policy);
        mutation.of_plan(&real, &mut plan);
        plan
    }

    /// Returns the mistake in a plan that does not depend on the state of the cluster, if there is one.
    fn wrong(
        &self,
        real: &SparkApplication,
        observed: &Observed,
        now: Timestamp,
        plan: &Plan,
    ) -> Option<String> {
        let state = plan.status.application_state.state;
        let is_terminal = matches!(state, State::Completed | State::Failed);
        if !is_terminal && plan.wake.is_none_or(|wake| wake.is_zero()) {
            return Some(format!("{state} has no timer"));
        }
        if is_terminal && plan.status.termination_time.is_none() {
            return Some(format!("{state} has no terminationTime"));
        }
        if state == State::SubmissionFailed && plan.status.application_state.error_message.is_none() {
            return Some("a submission has failed, and the status does not say why".to_owned());
        }
        let is_recorded = state == State::Submitted && real.state() != state;
        let run = plan.status.submission_id.as_deref().unwrap_or_default();
        let mut at_work =
            observed.submission_pods.iter().filter(|pod| submission_pod::state(pod).may_go_on());
        if is_recorded
            && matches!(&observed.driver, Driver::Pod { pod, .. } if pod.phase == PodPhase::Pending)
            && at_work.any(|pod| pod.submits_for(UID, run))
        {
            return Some("a driver is recorded that its spark-submit may still delete".to_owned());
        }
        // For a pod that is being deleted, the status reports the deletion instead.
        let mut staying = observed.submission_pods.iter().filter(|pod| !pod.terminating);
        let held = staying.find_map(|pod| pod.waiting.as_ref());
        let is_waited_for = plan.actions.is_empty() && state == real.state() && questions(real).launch;
        let said = plan.status.application_state.error_message.as_deref().unwrap_or_default();
        if let Some(held) = held.filter(|_| is_waited_for && observed.driver == Driver::Unseen)
            && !said.contains(&held.reason)
        {
            return Some("the status does not say what a submission pod waits for".to_owned());
        }
        if plan.status.executor_state.len() > self.setting.policy.executor_limit {
            return Some("executorState exceeds its limit".to_owned());
        }
        let before = real.status.clone().unwrap_or_default();
        if before != plan.status && timeless(before.clone()) == timeless(plan.status.clone()) && now != then()
        {
            return Some("a status is written only for its times".to_owned());
        }
        // Without disruption budgets, there are no auxiliary objects.
        let others = || Observed { made: !observed.made, ..observed.clone() };
        if self.setting.policy.has_driver_pdb && self.mutated(real, &others(), now).status != plan.status {
            return Some("the status depends on whether auxiliary objects were created".to_owned());
        }
        None
    }

    fn act(&self, action: &Action) -> Act {
        match action {
            Action::Submit(request) => {
                let run = self.runs[&request.run.id];
                Act::Submit { run, name: self.setting.names[usize::from(run.spec)] }
            }
            Action::StopSubmission => Act::StopSubmission,
            Action::Make(_) => Act::Make,
            Action::DeleteChildren(children) => {
                let deleted = |name: &String| children.iter().any(|child: &ObjectKey| child.name == *name);
                let ordinals = self.config_maps.iter().filter(|(_, name)| deleted(name));
                Act::DeleteChildren {
                    config_maps: ordinals.map(|(ordinal, _)| 1 << ordinal).sum(),
                    group: children.iter().any(|child| is_of_groups(&child.kind)),
                }
            }
            Action::DeletePod { name, uid } => {
                let uid = uid[1..].parse().unwrap();
                let of_run = self.config_maps.iter().find(|(_, config_map)| *config_map == name);
                match of_run {
                    _ if name.contains("-exec-") => Act::DeleteExecutor(uid),
                    Some((ordinal, _)) => {
                        let place = RunNo { ordinal: *ordinal, spec: 0 }.place();
                        Act::DeleteSubmissionPod { place: u8::try_from(place).unwrap(), uid }
                    }
                    None => Act::DeletePod { name: number_of(name), uid },
                }
            }
            Action::ProtectDriver { name, uid, protect } => {
                Act::Protect { name: number_of(name), uid: uid[1..].parse().unwrap(), protect: *protect }
            }
            Action::DeleteApplication => Act::DeleteApplication,
            Action::RenewTemplate { template, driver, uid } => Act::RenewTemplate {
                name: number_of(driver),
                uid: uid[1..].parse().unwrap(),
                template: self.template_number(&template.fingerprint()),
            },
            Action::MakeCopies { .. } | Action::PatchPod { .. } => {
                unreachable!("no application of the model is in a gang of Kubernetes: {action:?}")
            }
        }
    }

    /// Returns the action on the pod group. `None` if the action is about another object.
    fn about_group(&self, action: &AuxiliaryAction, there: Option<RunNo>) -> Option<Act> {
        match action {
            AuxiliaryAction::Delete(child) => {
                there.filter(|_| is_of_groups(&child.kind)).map(Act::DeleteGroup)
            }
            AuxiliaryAction::Make(object) | AuxiliaryAction::Mend(object) => {
                let run = object["metadata"]["labels"][label::SUBMISSION_ID].clone();
                let id: SubmissionId = serde_json::from_value(run).ok()?;
                (object["kind"] == "PodGroup").then(|| Act::RestoreGroup(self.runs[&id]))
            }
        }
    }

    /// Returns the pod group of a run as the watch reports it.
    fn group(&mut self, application: &Application, run: RunNo) -> Option<AuxiliaryObject> {
        let question = (*application, run);
        if let Some(group) = self.groups.get(&question) {
            return group.clone();
        }
        let real = self.kept(&Application { spec: run.spec, ..*application });
        let group = {
            let coming =
                ComingRun { submission_id: self.ids[&run].as_str(), served: &BTreeSet::new(), defaults: "" };
            let prepared = self.setting.policy.prepared(&real, &coming).unwrap();
            let [group] = &prepared.objects[..] else { return None };
            let extensions = &self.setting.policy.extensions;
            AuxiliaryObject::of(&VOLCANO, group, extensions).map(|(_, group)| group)
        };
        self.groups.insert(question, group.clone());
        group
    }

    /// Returns the number that stands for `status` in the states of the model.
    fn number(&mut self, status: SparkApplicationStatus) -> u32 {
        let status = timeless(status);
        let text = serde_json::to_string(&status).unwrap();
        if let Some(number) = self.status_numbers.get(&text) {
            return *number;
        }
        let id = status.submission_id.as_ref().map(|id| serde_json::from_value(id.as_str().into()).unwrap());
        let has_hash = |spec: &&SparkApplicationSpec| {
            status.spec_hash.as_ref().and_then(|recorded| is_hash_of(recorded, spec)) == Some(true)
        };
        let specs = (0..).zip(&self.specs).filter(|(_, spec)| has_hash(spec));
        let facts = Facts {
            state: status.application_state.state,
            run: id.map(|id: SubmissionId| self.runs[&id]),
            ordinal: u8::try_from(status.run_ordinal.unwrap_or_default()).unwrap(),
            executions: status.execution_attempts,
            submissions: status.submission_attempts,
            specs: specs.map(|(number, _)| 1 << number).sum(),
            generation: status.observed_generation.map(|generation| u8::try_from(generation).unwrap()),
            rerun: status.last_rerun.as_ref().map_or(0, |value| value.parse().unwrap()),
            has_time: status.termination_time.is_some(),
        };
        let number = u32::try_from(self.statuses.len()).unwrap();
        self.statuses.push((status, facts));
        self.status_numbers.insert(text, number);
        number
    }

    /// Returns the application as an object of the API. It is built once, because many inputs contain the same one.
    fn kept(&mut self, application: &Application) -> Rc<SparkApplication> {
        if let Some(real) = self.applications.get(application) {
            return Rc::clone(real);
        }
        let real = Rc::new(self.real(application));
        self.applications.insert(*application, Rc::clone(&real));
        real
    }

    fn real(&self, application: &Application) -> SparkApplication {
        let Application { spec, generation, suspend, rerun, life: _, status } = *application;
        let mut fields = crate::template();
        fields["arguments"] = json!([(spec % 2).to_string()]);
        if spec == 2 {
            fields["executor"] = json!({"nodeSelector": {"pool": "other"}});
        }
        fields["driver"] = json!({"podName": name_of(self.setting.names[usize::from(spec)])});
        fields["suspend"] = json!(suspend);
        json_patch::merge(&mut fields, &self.setting.spec);
        let annotations = if rerun == 0 { json!({}) } else { json!({annotation::RERUN: rerun.to_string()}) };
        let labels = if self.setting.is_queued { json!({label::QUEUE_NAME: "default"}) } else { json!({}) };
        let metadata = json!({
            "name": "pi", "labels": labels, "namespace": "default", "uid": UID, "generation": generation,
            "annotations": annotations,
        });
        let mut real: SparkApplication =
            serde_json::from_value(json!({"metadata": metadata, "spec": fields})).unwrap();
        real.status =
            self.statuses.get(status as usize).filter(|_| status > 0).map(|(status, _)| status.clone());
        real
    }

    fn observed(&self, application: &Application, seen: &Seen, group: Option<AuxiliaryObject>) -> Observed {
        let driver = match seen.driver {
            SeenDriver::Unseen => Driver::Unseen,
            SeenDriver::Gone => Driver::Gone,
            SeenDriver::Pod { pod, name, complete } => {
                Driver::Pod { pod: Box::new(self.driver(pod, name)), complete }
            }
        };
        let executors = |executors: &[Option<Executor>]| {
            executors.iter().flatten().map(|executor| self.executor(executor)).collect::<Vec<_>>()
        };
        let drivers = (0_u8..).zip(&seen.stray_drivers);
        let strays = drivers.filter_map(|(name, pod)| Some(self.driver((*pod)?, name)));
        let submission_pods = |pods: &[Option<SubmissionPod>]| {
            let foreign = self.setting.has_foreign_submission_pod.then(|| self.foreign_submission_pod());
            pods.iter().flatten().map(|pod| self.submission_pod(pod)).chain(foreign).collect::<Vec<_>>()
        };
        let strays = strays.chain(executors(&seen.stray_executors));
        let id = |run: RunNo| self.ids[&run].clone();
        let made = || {
            if self.is_native() {
                SubmissionProgress::Succeeded { spark_application_id: Some("spark-1".to_owned()) }
            } else {
                SubmissionProgress::PodMade
            }
        };
        debug_assert!(application.status > 0 || !seen.made);
        Observed {
            driver,
            executors: executors(&seen.executors),
            strays: strays.chain(submission_pods(&seen.stray_submission_pods)).collect(),
            submission_pods: submission_pods(
                &[&seen.submission_pods[..], &[seen.live_submission_pod]].concat(),
            ),
            departed: seen.departed.map(|(name, pod)| Box::new(self.driver(pod, name))),
            recorded: seen.has_written.then(then),
            made: seen.made,
            auxiliary: AuxiliaryObjects { there: group.into_iter().collect(), ..AuxiliaryObjects::default() },
            submission: seen.submission.map(|(run, progress)| Submission {
                id: id(run),
                progress: match progress {
                    Progress::Begun
                    | Progress::Grouped
                    | Progress::HalfMade
                    | Progress::Made
                    | Progress::Met => SubmissionProgress::Running,
                    Progress::Succeeded => made(),
                    Progress::DriverExists => SubmissionProgress::DriverExists,
                    Progress::Failed => SubmissionProgress::Failed("refused".to_owned()),
                },
            }),
            defaults: Some(String::new()),
            ..Observed::default()
        }
    }
}

/// Removes messages that would multiply the states: the one about a pod that is awaited, and, unless
/// `keeps_submissions`, the one about a submission pod. The previous message takes their place.
fn unsaid(before: &SparkApplication, status: &mut SparkApplicationStatus, keeps_submissions: bool) {
    let is_unsaid = |said: &&String| {
        said.starts_with("waits until pod ") || !keeps_submissions && said.starts_with("submission pod ")
    };
    let said = status.application_state.error_message.as_ref();
    let Some(said) = said.filter(is_unsaid).cloned() else { return };
    let before = before.status.as_ref().and_then(|status| status.application_state.error_message.clone());
    for condition in status.conditions.iter_mut().filter(|condition| condition.message == said) {
        condition.message = before.clone().unwrap_or_default();
    }
    status.application_state.error_message = before;
}

/// Returns the status with the same time for all its times.
fn timeless(mut status: SparkApplicationStatus) -> SparkApplicationStatus {
    let timeless = |time: &mut Option<Time>| {
        if let Some(time) = time {
            *time = Time(then());
        }
    };
    timeless(&mut status.last_submission_attempt_time);
    timeless(&mut status.termination_time);
    for run in &mut status.runs {
        timeless(&mut run.submitted_time);
        timeless(&mut run.finished_time);
    }
    for condition in &mut status.conditions {
        condition.last_transition_time = Time(then());
    }
    status
}

/// Returns 2026-11-21T08:00:00Z. It is not parsed from text, because each decision needs it some ten times.
pub const fn then() -> Timestamp {
    Timestamp::constant(1_795_248_000, 0)
}

/// Returns the time a year after [`then`].
const fn long_after() -> Timestamp {
    Timestamp::constant(1_826_784_000, 0)
}
