//! Implements the extension interface of `plan` for batch schedulers.

use super::{
    BatchScheduler, BatchSchedulers, COSCHEDULING, ExchangeMemory, KUBERNETES, KUBERNETES_VERSIONS, Recalled,
    VOLCANO, group_of, is_gated, is_of_groups, is_placeholder,
    kubernetes::{self, Gang, ungate},
    pod_groups, wanted_group, yunikorn,
};
use api::{ObjectKey, ObjectKind, Role, SparkApplication, batch_scheduler, excerpt, label};
use plan::extension::{ComingRun, Extension, ExtensionMemory, Obstacle, Prepared, View};
use pods::{PodSummary, Waiting};
use serde_json::{Map, Value};
use std::borrow::Cow;
use submission::owned::owned;
use validation::{Findings, validate};

/// The refusal of an application in a cluster that does not serve Kubernetes' own PodGroups.
const NO_POD_GROUPS: &str = "spec.batchScheduler: kubernetes: the cluster has no PodGroups of scheduling.k8s.io: it needs Kubernetes 1.36 or \
                             later, the feature gate GenericWorkload, and scheduling.k8s.io/v1beta1 (v1alpha2 in 1.36) in --runtime-config";

impl Extension for BatchSchedulers {
    fn alternatives(&self, application: &SparkApplication) -> Vec<ObjectKind> {
        let is_needed = matches!(self.of(application), Ok(Some((_, BatchScheduler::Kubernetes))));
        KUBERNETES_VERSIONS.into_iter().filter(|_| is_needed).collect()
    }

    /// Puts the pods of the run into a group, as the batch scheduler requires. Without a batch scheduler, nothing changes.
    fn prepare(&self, prepared: &mut Prepared<'_>, run: &ComingRun<'_>) -> Result<(), String> {
        let application = &*prepared.application;
        let Some((name, scheduler)) = self.of(application)? else { return Ok(()) };
        let options = application.spec.batch_scheduler_options.clone().unwrap_or_default();
        if let Some(invalid) = self.examine("spec", &name, &options).invalid.first() {
            return Err(invalid.to_string());
        }
        let mut grouped = application.clone();
        // Kubernetes' own gangs are placed by the scheduler that the roles name, or the cluster's default.
        grouped.spec.batch_scheduler = Some(name).filter(|_| scheduler != BatchScheduler::Kubernetes);
        let driver = &application.spec.driver.pod;
        // The operator does not manage a group that the user has created.
        let has_own_group = match scheduler {
            BatchScheduler::Volcano => driver.annotations.contains_key(batch_scheduler::VOLCANO_GROUP),
            BatchScheduler::Coscheduling => {
                let mut labels = application.metadata.labels.iter().chain([&driver.labels]);
                labels.any(|labels| labels.contains_key(batch_scheduler::COSCHEDULING_GROUP))
            }
            BatchScheduler::YuniKorn | BatchScheduler::Kubernetes => false,
        };
        if has_own_group {
            prepared.application = Cow::Owned(grouped);
            return Ok(());
        }
        let sums = "the sums of the batch scheduler";
        let requests = validate(&grouped)
            .and_then(|valid| plan::pod_requests::PodRequests::of(&valid, run.defaults, sums));
        let requests = requests.map_err(|refusal| refusal.brief())?;
        let own = |object| owned(object, application, Some(run.submission_id), label::CREATED_BY);
        let objects = match scheduler {
            BatchScheduler::Volcano => vec![pod_groups::volcano(&mut grouped, &requests)],
            BatchScheduler::Coscheduling => vec![pod_groups::coscheduling(&mut grouped, &requests)?],
            BatchScheduler::YuniKorn => {
                yunikorn::group(&mut grouped, &requests);
                Vec::new()
            }
            BatchScheduler::Kubernetes => {
                let served = KUBERNETES_VERSIONS.into_iter().find(|kind| run.served.contains(kind));
                let version = served.ok_or(NO_POD_GROUPS)?.api_version;
                let (objects, mut placeholders) =
                    kubernetes::objects(&mut grouped, &requests, &version, run.submission_id)?;
                placeholders.template = own(placeholders.template);
                prepared.copies = placeholders;
                objects
            }
        };
        prepared.objects.extend(objects.into_iter().map(own));
        prepared.application = Cow::Owned(grouped);
        Ok(())
    }

    /// Returns the objects of the group that `driver` names; without a driver, those of every scheduler that applications may
    /// name.
    fn leftovers(&self, name: &str, submission_id: &str, driver: Option<&PodSummary>) -> Vec<ObjectKey> {
        let possible = [
            VOLCANO.named(pod_groups::volcano_name(name)),
            COSCHEDULING.named(pod_groups::coscheduling_name(name)),
            KUBERNETES.named(kubernetes::name(name, submission_id)),
        ];
        let is_left = |group: &ObjectKey| match driver.map(group_of) {
            // A group with another name is the user's own.
            Some(named) => named.as_ref() == Some(group),
            None if group.kind == KUBERNETES => self.has_kubernetes,
            None => self.watched().contains(&group.kind),
        };
        let objects = |group: ObjectKey| {
            if group.kind != KUBERNETES {
                return vec![group];
            }
            // The cluster may have been upgraded since the run was submitted.
            let with_workload =
                |kind: ObjectKind| [kind.clone(), ObjectKind { kind: "Workload".into(), ..kind }];
            let kinds = KUBERNETES_VERSIONS.into_iter().flat_map(with_workload);
            kinds.map(|kind| kind.named(&*group.name)).collect()
        };
        possible.into_iter().filter(is_left).flat_map(objects).collect()
    }

    /// Returns the kinds of PodGroups that are created for applications. Those of Kubernetes' own gangs are not watched:
    /// their pods report what the group waits for.
    fn watched(&self) -> Vec<ObjectKind> {
        let all = [(!self.is_off, VOLCANO), (!self.kube_schedulers.is_empty(), COSCHEDULING)];
        all.into_iter().filter(|(is_made, _)| *is_made).map(|(_, kind)| kind).collect()
    }

    fn content(&self, kind: &ObjectKind, spec: &Value) -> Option<Value> {
        let fields = ["minMember", "minResources", "queue", "priorityClassName"];
        let content = fields.into_iter().map(|field| (field.to_owned(), spec[field].clone()));
        is_of_groups(kind).then(|| content.collect::<Map<_, _>>().into())
    }

    /// Returns what a PodGroup waits for: its phase, and the reason and the message of the last condition that explains it;
    /// `None` if its pods run or have run.
    fn pending(&self, kind: &ObjectKind, group: &Value) -> Option<String> {
        let status = &group["status"];
        let phase = status["phase"].as_str().filter(|phase| !phase.is_empty()).unwrap_or("Pending");
        if !is_of_groups(kind) || ["Running", "Scheduled", "Completed", "Finished"].contains(&phase) {
            return None;
        }
        let is_reason =
            |condition: &&Value| condition["status"] == "True" && condition["type"] == "Unschedulable";
        let condition = status["conditions"].as_array().and_then(|all| all.iter().rev().find(is_reason));
        let said = ["reason", "message"].into_iter().filter_map(|field| condition?[field].as_str());
        let since = group["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
        let mut words = vec![format!("{phase} since {since}")];
        words.extend(said.filter(|text| !text.is_empty()).map(str::to_owned));
        Some(excerpt::explanation(words.join(": ")))
    }

    fn advice(&self, kind: &ObjectKind, obstacle: Obstacle) -> Option<&'static str> {
        is_of_groups(kind).then(|| match (obstacle, &*kind.api_version) {
            (Obstacle::NoPermission, _) => {
                "; to permit it: spark-operator manifests rbac, with --enable-batch-scheduler and the operator's other flags"
            }
            (Obstacle::NoKind, batch_scheduler::VOLCANO_API) => {
                "; install Volcano, or take batchScheduler out of the spec"
            }
            (Obstacle::NoKind, batch_scheduler::COSCHEDULING_API) => {
                "; install the definitions of scheduler-plugins, or take batchScheduler out of the spec"
            }
            (Obstacle::NoKind, _) => {
                "; turn on the feature gate GenericWorkload, or take batchScheduler out of the spec"
            }
        })
    }

    /// Whether the operator keeps the group of `driver` up to date, for which it has to compute the group's size.
    fn needs_defaults(&self, driver: &PodSummary) -> bool {
        !self.is_off && group_of(driver).is_some()
    }

    fn amend(&self, view: &View<'_>, plan: &mut plan::Plan) -> Vec<Value> {
        let nothing = Recalled::default();
        let recalled = view.seen.recalled().unwrap_or(&nothing);
        Gang { view: *view, recalled }.amend(plan);
        Vec::from_iter(wanted_group(view, &plan.status))
    }

    /// Returns what the PodGroup waits for. If the driver's pod reports that it is not scheduled, returns the message of a
    /// placeholder that is not scheduled for another reason: if a gang does not fit, the message of one pod names the
    /// missing resource, and the messages of the other pods only the number of pods that fit.
    fn waits_for(&self, driver: &PodSummary, seen: &plan::Observed) -> Option<String> {
        const UNSCHEDULABLE: &str = "Unschedulable";
        let Some(own) = &driver.waiting else { return seen.auxiliary.waiting(&group_of(driver)?) };
        let its = seen.others.iter().filter(|pod| pod.submission_id == driver.submission_id);
        let mut unplaced = its.filter(|pod| is_placeholder(pod)).filter_map(|pod| pod.waiting.as_ref());
        let is_other = |waiting: &&Waiting| waiting.reason == UNSCHEDULABLE && waiting.message != own.message;
        unplaced.find(is_other).filter(|_| own.reason == UNSCHEDULABLE)?.message.clone()
    }

    /// Removes the gates of executors that wait for the room of placeholders, because no operator would remove them later;
    /// the scheduler places these executors wherever there is room.
    fn leave(&self, pods: &[&PodSummary]) -> Vec<plan::Action> {
        // A gang that is not placed yet can only be placed with its placeholders. The kubelet stops them after a while.
        let is_placed = pods.iter().any(|pod| pod.role == Some(Role::Driver) && pod.assigned.is_some());
        let placeholders = pods.iter().filter(|pod| is_placed && is_placeholder(pod));
        let gated = pods.iter().filter(|pod| is_gated(pod));
        placeholders.filter_map(|pod| plan::Action::delete(pod)).chain(gated.map(|pod| ungate(pod))).collect()
    }

    fn memory(&self) -> Option<Box<dyn ExtensionMemory>> {
        Some(Box::new(ExchangeMemory::default()))
    }

    fn fields(&self) -> &'static [&'static str] {
        &["batchScheduler", "batchSchedulerOptions"]
    }

    fn check(&self, root: &str, fields: &Value) -> Findings {
        let (name, options) = (&fields["batchScheduler"], &fields["batchSchedulerOptions"]);
        let name = name.as_str().unwrap_or_default();
        if self.is_off {
            let mut findings = Findings::default();
            let what = match name {
                "" if options.is_null() => return findings,
                "" => "batchSchedulerOptions: has no effect",
                _ => "batchScheduler: only becomes the schedulerName of the pods, without a group",
            };
            let why = "the operator runs without --enable-batch-scheduler";
            findings.warnings.push(format!("{root}.{what}: {why}"));
            return findings;
        }
        // The API server has checked the types of the options by the schema.
        self.examine(root, name, &serde_json::from_value(options.clone()).unwrap_or_default())
    }
}
