//! Tests the groups, labels and annotations that a batch scheduler gets for the pods of an application. The cases are
//! in `tests/data/gang`.

use crate::prelude::*;
use api::{
    BatchSchedulerOptions, LONGEST_NAME, ObjectKey,
    names::{batch_scheduler, role},
};
use batch_schedulers::{BatchSchedulers, KUBERNETES, KUBERNETES_VERSIONS, excess, is_of_groups};
use plan::{
    By, SubmitRequest,
    extension::only,
    submission_plan::{Chosen, Submitter, choose},
};
use pods::Placement;
use spark_client::read_properties;
use validation::Invalid;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Case {
    case: String,
    kube_schedulers: Vec<String>,
    default: Option<String>,
    spec: Value,
    /// The scheduler of driver and executors.
    scheduler: Option<String>,
    /// API version, name and spec of the object that is created first.
    group: Option<Value>,
    /// The labels and annotations of driver and executors, without those that every application has, by the end of the
    /// key of the property that sets them.
    both: BTreeMap<String, String>,
    driver: BTreeMap<String, String>,
    executor: BTreeMap<String, String>,
    refused: Option<String>,
}

/// The API server limits the length of labels, but not that of a single annotation.
#[test]
fn a_mark_of_a_driver_that_is_longer_than_a_name_is_ignored() {
    let marks = |value: &str| {
        let (labels, annotations) =
            (json!({label::SPARK_ROLE: role::DRIVER}), json!({batch_scheduler::VOLCANO_GROUP: value}));
        let metadata = json!({"labels": labels, "annotations": annotations});
        let pod = json!({"metadata": metadata, "spec": {"containers": []}});
        let summary = PodSummary::of(&serde_json::from_value(pod).unwrap());
        summary.particulars.map_or(0, |particulars| particulars.marks.len())
    };
    assert_eq!((marks(&"a".repeat(LONGEST_NAME)), marks(&"a".repeat(LONGEST_NAME + 1))), (1, 0));
}

#[test]
fn a_batch_scheduler_gets_the_group_and_its_pods_from_both_submitters() {
    for case in yaml::<Vec<Case>>(&data("gang/cases.yaml")) {
        let (name, application) = (&case.case, application(&case.spec));
        for submitter in [Submitter::Native, Submitter::SparkSubmit] {
            let run = Run::next(&application);
            let policy = Policy { submitter, ..policy(&case) };
            let environment = SubmissionEnvironment::default();
            let chosen = choose(&application, &run, &environment, &policy, Timestamp::UNIX_EPOCH);
            let by = match chosen {
                Ok(chosen) => chosen.request.by,
                Err(why) => {
                    assert_eq!(Some(why), case.refused, "{name}");
                    continue;
                }
            };
            assert_eq!(case.refused, None, "{name}");
            let (By::Native(objects) | By::Pod { objects, .. }) = by;
            let group = objects.children.first().filter(|object| object["kind"] == "PodGroup");
            let shown = |group: &Value| json!({"apiVersion": group["apiVersion"], "name": group["metadata"]["name"], "spec": group["spec"]});
            assert_eq!(group.map(shown), case.group, "{name}");
            if let Some(group) = group {
                assert_eq!(group["metadata"]["labels"][label::SUBMISSION_ID], run.id.as_str());
                assert_eq!(group["metadata"]["ownerReferences"][0]["uid"], "u", "{name}");
            }
            let properties = properties(&objects);
            for (role, own) in [("driver", &case.driver), ("executor", &case.executor)] {
                let all = case.both.iter().chain(own);
                let expected: BTreeMap<_, _> = all.map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_eq!(marks(&properties, role), expected, "{name}: {role} by {submitter}");
            }
            if submitter == Submitter::Native {
                let scheduler = objects.pod["spec"]["schedulerName"].as_str();
                assert_eq!(scheduler, case.scheduler.as_deref(), "{name}");
                let customization = json!(objects.children).to_string();
                let told = format!(
                    "\\\"{}\\\":\\\"{}\\\"",
                    annotation::SCHEDULER_NAME,
                    scheduler.unwrap_or_default()
                );
                assert_eq!(customization.contains(&told), scheduler.is_some(), "{name}: {customization}");
            } else {
                assert_eq!(
                    objects.pod["spec"]["schedulerName"],
                    Value::Null,
                    "{name}: the submission pod is in no group"
                );
            }
        }
    }
}

/// Returns the labels and annotations that the properties set on the pods of a role, without the operator's own. The key
/// is the end of the property's key: `label.queue`.
fn marks(properties: &BTreeMap<String, String>, role: &str) -> BTreeMap<String, String> {
    let prefix = format!("spark.kubernetes.{role}.");
    let mark =
        |(key, value): (&String, &String)| Some((key.strip_prefix(&prefix)?.to_owned(), value.clone()));
    let marks = properties.iter().filter_map(mark);
    marks
        .filter(|(key, _)| {
            let name = key.strip_prefix("label.").or_else(|| key.strip_prefix("annotation."));
            name.is_some_and(|name| !name.starts_with(annotation::PREFIX))
        })
        .collect()
}

fn properties(objects: &Objects) -> BTreeMap<String, String> {
    let mut texts = objects.children.iter().filter_map(|child| child["data"]["spark.properties"].as_str());
    let text = texts.next_back().expect("there is a ConfigMap with the properties");
    read_properties(text).unwrap()
}

fn policy(case: &Case) -> Policy {
    with(BatchSchedulers::new(case.kube_schedulers.clone(), false, case.default.clone()))
}

fn application(spec: &Value) -> SparkApplication {
    let mut object = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {"name": "pi", "namespace": "default", "uid": "u"},
        "spec": {
            "type": "Scala", "sparkVersion": "4.0.1", "mainApplicationFile": "local:///app.jar", "mainClass": "Main", "image": "spark",
            "executor": {"instances": 1},
        },
    });
    json_patch::merge(&mut object["spec"], spec);
    serde_json::from_value(object).unwrap()
}

/// Kubernetes' own gangs: what is created before the driver, and what driver and executors get.
#[test]
fn kubernetes_own_gangs_hold_room_by_placeholders_and_gate_the_executors() {
    let spec: Value = yaml(&data("gang/kubernetes.yaml"));
    let application = application(&spec);
    let mut golden = Golden::default();
    for kind in KUBERNETES_VERSIONS {
        for submitter in [Submitter::Native, Submitter::SparkSubmit] {
            let policy = Policy { submitter, ..with_kubernetes() };
            let environment =
                SubmissionEnvironment { served: [kind.clone()].into(), ..SubmissionEnvironment::default() };
            let run = Run::next(&application);
            let chosen = choose(&application, &run, &environment, &policy, Timestamp::UNIX_EPOCH).unwrap();
            let placeholders = chosen.request.copies.iter();
            let (By::Native(objects) | By::Pod { objects, .. }) = chosen.request.by;
            let group = objects.children[1]["metadata"]["name"].as_str().unwrap();
            for object in &objects.children[..2] {
                let made = ObjectKey::of(object).unwrap().kind;
                assert!(is_of_groups(&made) && made.api_version == kind.api_version, "{made}");
            }
            let version = kind.api_version.rsplit('/').next().unwrap();
            golden.compare_yaml(
                &data(&format!("gang/kubernetes-{version}.yaml")),
                &objects.children[..2].iter().cloned().chain(placeholders).collect::<Vec<_>>(),
            );
            let template = json!(objects.children[2..]).to_string();
            assert!(template.contains("scheduling-gate\\\":\\\"sparkoperator.k8s.io/gang"), "{template}");
            if submitter == Submitter::Native {
                assert_eq!(objects.pod["spec"]["schedulingGroup"], json!({"podGroupName": group}));
                assert_eq!(objects.pod["spec"]["schedulerName"], Value::Null);
            } else {
                assert_eq!(
                    objects.pod["spec"]["schedulingGroup"],
                    Value::Null,
                    "the submission pod runs before the gang"
                );
            }
        }
    }
    golden.finish();
}

/// Without the webhook, the annotations that only the webhook reads are removed, but the operator itself reads these
/// two.
#[test]
fn without_the_webhook_group_and_gate_of_spark_submits_pods_are_annotated() {
    let application = application(&json!({"batchScheduler": "kubernetes"}));
    let mut policy = Policy { submitter: Submitter::SparkSubmit, ..with_kubernetes() };
    policy.submission.has_webhook = false;
    let SubmitRequest { run, by, .. } = chosen(&application, &policy).unwrap().request;
    let (By::Native(objects) | By::Pod { objects, .. }) = by;
    let group = objects.children.iter().find(|object| object["kind"] == "PodGroup").unwrap();
    let group = ObjectKey::of(group).unwrap();
    let template = template(&objects, "driver");
    assert_eq!(template["metadata"]["annotations"], json!({annotation::POD_GROUP: group.name}));
    let gate = json!({annotation::SCHEDULING_GATE: "sparkoperator.k8s.io/gang"});
    assert_eq!(self::template(&objects, "executor")["metadata"]["annotations"], gate);
    assert_eq!(template["spec"]["schedulingGroup"], json!({"podGroupName": group.name}));

    // Spark keeps the annotations of the template.
    let driver = PodSummary::of(&serde_json::from_value(template).unwrap());
    let children = policy.extensions[0].leftovers("pi", run.id.as_str(), Some(&driver));
    assert!(children.contains(&group), "{children:?}");
}

/// Spark takes the first container of a template if none has the name that it looks for.
#[test]
fn without_the_webhook_the_container_of_spark_may_have_any_name() {
    let containers = json!([{"name": "main", "args": ["own"]}, {"name": "logger"}]);
    let executor = json!({"template": {"spec": {"containers": containers}}});
    let mut policy = Policy { submitter: Submitter::SparkSubmit, ..with_kubernetes() };
    policy.submission.has_webhook = false;
    let application = application(&json!({"batchScheduler": "kubernetes", "executor": executor}));
    let (By::Native(objects) | By::Pod { objects, .. }) = chosen(&application, &policy).unwrap().request.by;
    let spec = &template(&objects, "executor")["spec"];
    assert_eq!(spec["schedulingGates"], json!([{"name": "sparkoperator.k8s.io/gang"}]));
    assert_eq!(spec["containers"], containers);
}

/// Returns the template from which `spark-submit` creates pods of a role.
fn template(objects: &Objects, role: &str) -> Value {
    let file = format!("{role}-pod-template.yaml");
    let text = objects.children.iter().find_map(|child| child["data"][&file].as_str());
    serde_json::from_str(text.unwrap()).unwrap()
}

/// The submission pod is in no group. For such a pod Volcano creates a group in its default queue, which may be full.
#[test]
fn a_submission_pod_has_its_drivers_scheduler_but_no_batch_scheduler() {
    let gangs = BatchSchedulers::new(Vec::new(), true, None).unwrap();
    let own = json!({"schedulerName": "own"});
    let configured = json!({"spark.kubernetes.driver.scheduler.name": "volcano"});
    for (spec, batch_schedulers, expected) in [
        (json!({"driver": own}), None, Some("own")),
        (json!({"batchScheduler": "volcano"}), None, None),
        (json!({"batchScheduler": "volcano", "sparkConf": configured}), None, None),
        (json!({"batchScheduler": "kubernetes", "driver": own}), Some(gangs), Some("own")),
    ] {
        let application = application(&spec);
        let extensions = batch_schedulers.map(only).unwrap_or_default();
        let policy = Policy { submitter: Submitter::SparkSubmit, extensions, ..with_kubernetes() };
        let (By::Native(objects) | By::Pod { objects, .. }) =
            chosen(&application, &policy).unwrap().request.by;
        assert_eq!(objects.pod["spec"]["schedulerName"].as_str(), expected, "{spec}");
    }
}

#[test]
fn without_pod_groups_in_the_cluster_the_submission_fails_with_advice() {
    let application = application(&json!({"batchScheduler": "kubernetes"}));
    let policy = with_kubernetes();
    let environment = SubmissionEnvironment::default();
    let run = Run::next(&application);
    let why = choose(&application, &run, &environment, &policy, Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(why.contains("it needs Kubernetes 1.36 or later, the feature gate GenericWorkload"), "{why}");
}

/// A placeholder is built for each executor: without a maximum, they could take all of the operator's memory.
#[test]
fn a_gang_has_a_placeholder_for_each_of_up_to_a_thousand_executors() {
    let direct = json!({"spark.kubernetes.allocation.pods.allocator": "direct"});
    let spec = json!({"executor": {"instances": 1000}, "sparkConf": direct});
    let chosen = chosen_by_kubernetes(&spec, &json!({})).unwrap();
    assert_eq!(chosen.request.copies.iter().count(), 1000);
}

#[test]
fn an_application_that_cannot_be_a_gang_is_refused_with_advice() {
    for (spec, defaults, expected) in yaml::<Vec<(Value, String, String)>>(&data("gang/refused.yaml")) {
        let application = application(&spec);
        let run = Run::next(&application);
        let why = chosen_for(&run, &application, &with_kubernetes(), &defaults).unwrap_err();
        assert!(why.starts_with(&expected), "{why}");
    }
}

/// A gang of Kubernetes' own, and the fields of its first placeholder by their JSON pointers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    case: String,
    spec: Value,
    /// The labels of the application.
    #[serde(default)]
    labels: Value,
    placeholder: BTreeMap<String, Value>,
}

/// The scheduler places a placeholder as it would place the executor, and a policy that refuses or admits executors has to
/// treat their placeholders in the same way.
#[test]
fn scheduler_and_policies_see_placeholders_as_they_will_see_executors() {
    for Held { case, spec, labels, placeholder } in yaml::<Vec<Held>>(&data("gang/placeholders.yaml")) {
        let chosen = chosen_by_kubernetes(&spec, &labels).unwrap();
        let mut found = chosen.request.copies.iter().next().unwrap();
        let run = found["metadata"]["labels"].as_object_mut().unwrap().remove(label::SUBMISSION_ID);
        assert_eq!(run, Some(json!(chosen.request.run.id.as_str())), "{case}");
        for (place, expected) in &placeholder {
            assert_eq!(found.pointer(place).unwrap_or(&Value::Null), expected, "{case}: {place}");
        }
        // All pods of a gang have one scheduler.
        let By::Native(objects) = &chosen.request.by else { panic!("{chosen:?}") };
        assert_eq!(objects.pod["spec"]["schedulerName"], found["spec"]["schedulerName"], "{case}");
    }
}

/// Properties of the admin's `spark-defaults.conf` count as if the application set them, unless it sets the same ones.
#[test]
fn group_and_placeholders_include_the_admins_spark_defaults() {
    let defaults = "spark.driver.memoryOverhead 1g\nspark.executor.memoryOverhead=2g\nspark.dynamicAllocation.enabled true\n\
                    spark.dynamicAllocation.initialExecutors 3\nspark.kubernetes.executor.request.cores 250m\n\
                    spark.kubernetes.executor.label.by-default x\nspark.executor.memory 9g\n";
    let as_conf: BTreeMap<_, _> = read_properties(defaults)
        .unwrap()
        .into_iter()
        .filter(|(key, _)| key != "spark.executor.memory")
        .collect();
    let policy = with(BatchSchedulers::new(vec!["coscheduler".to_owned()], true, None));
    for scheduler in ["volcano", "yunikorn", "coscheduler", "kubernetes"] {
        let submitted = |conf: &Value, defaults: &str| {
            let executor = json!({"memory": "512m", "instances": null});
            let spec = json!({"batchScheduler": scheduler, "executor": executor, "sparkConf": conf});
            // Another spec has another submission id.
            let run = Run::next(&application(&json!({})));
            let chosen = chosen_for(&run, &application(&spec), &policy, defaults).unwrap();
            let placeholders: Vec<_> = chosen.request.copies.iter().collect();
            let (By::Native(objects) | By::Pod { objects, .. }) = chosen.request.by;
            let marks = ["driver", "executor"].map(|role| marks(&properties(&objects), role));
            let groups: Vec<_> =
                objects.children.into_iter().filter(|child| child["kind"] != "ConfigMap").collect();
            (groups, placeholders, marks)
        };
        let by_defaults = submitted(&json!({}), defaults);
        assert_eq!(by_defaults, submitted(&json!(as_conf), ""), "{scheduler}");
        assert_ne!(by_defaults, submitted(&json!({}), ""), "{scheduler}");
        assert_eq!(by_defaults.1.len(), if scheduler == "kubernetes" { 3 } else { 0 });
    }
}

/// Returns how an application is submitted in a gang of Kubernetes' own. `labels` are those of the application.
fn chosen_by_kubernetes(spec: &Value, labels: &Value) -> Result<Chosen, String> {
    let mut application = application(spec);
    application.spec.batch_scheduler = Some("kubernetes".to_owned());
    application.metadata.labels = serde_json::from_value(labels.clone()).unwrap();
    chosen(&application, &with_kubernetes())
}

/// Returns how an application is submitted in a cluster that has PodGroups of Kubernetes' own.
pub(crate) fn chosen(application: &SparkApplication, policy: &Policy) -> Result<Chosen, String> {
    chosen_for(&Run::next(application), application, policy, "")
}

/// Returns how `run` is submitted in a cluster that has PodGroups of Kubernetes' own. `defaults` is the text of the
/// admin's `spark-defaults.conf`.
fn chosen_for(
    run: &Run,
    application: &SparkApplication,
    policy: &Policy,
    defaults: &str,
) -> Result<Chosen, String> {
    let environment = SubmissionEnvironment {
        served: [KUBERNETES].into(),
        defaults: defaults.to_owned(),
        ..SubmissionEnvironment::default()
    };
    choose(application, run, &environment, policy, Timestamp::UNIX_EPOCH)
}

/// Returns the policy of an operator with these schedulers.
fn with(schedulers: Result<BatchSchedulers, String>) -> Policy {
    Policy { extensions: only(schedulers.unwrap()), ..Policy::new("k8s://https://10.96.0.1:443") }
}

/// Returns the policy of an operator with Kubernetes' own gangs.
fn with_kubernetes() -> Policy {
    with(BatchSchedulers::new(Vec::new(), true, None))
}

#[test]
fn a_name_that_makes_too_long_a_label_is_refused_before_any_pod() {
    let mut application = application(&json!({"batchScheduler": "coscheduler"}));
    let mut why = |length: usize| {
        application.metadata.name = Some("x".repeat(length));
        let policy = with(BatchSchedulers::new(vec!["coscheduler".to_owned()], false, None));
        chosen(&application, &policy).err()
    };
    assert_eq!(why(60), None);
    let why = why(61).unwrap();
    assert!(
        why.starts_with("metadata.name: the pods would have the label scheduling.x-k8s.io/pod-group=x"),
        "{why}"
    );
}

/// A group that a driver names is deleted at the end of the run only if the operator has created it: the name comes
/// from a label or an annotation, which the user can write too, and becomes part of a URL.
#[test]
fn only_groups_with_the_operators_own_names_are_deleted_with_a_run() {
    let policy = with(BatchSchedulers::new(vec!["coscheduler".to_owned()], true, None));
    let names = |driver: Option<Value>| {
        let driver = driver
            .map(|metadata| PodSummary::of(&serde_json::from_value(json!({"metadata": metadata})).unwrap()));
        let all = policy.extensions[0].leftovers("pi", "abcdefgh-run", driver.as_ref()).into_iter();
        let names: BTreeSet<_> = all.map(|child| format!("{} {}", child.kind.kind, child.name)).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    for (mut labels, annotations, expected) in yaml::<Vec<(Value, Value, String)>>(&data("gang/marks.yaml")) {
        labels["spark-role"] = json!("driver");
        let metadata = json!({"labels": labels, "annotations": annotations});
        assert_eq!(names(Some(metadata.clone())), expected, "{metadata}");
    }
    // Without the driver, the spec of its run may be unknown, so that it may have had any of these groups.
    let any = "PodGroup pi-abcdefgh, PodGroup pi-pg, PodGroup spark-pi-pg, Workload pi-abcdefgh";
    assert_eq!(names(None), any);
}

/// Whoever may create pods can create one that looks like a placeholder and names any node.
#[test]
fn a_placeholder_holds_room_only_once_the_kubelet_has_accepted_it() {
    let seat = |differs: Value| {
        let mut pod = json!({
            "metadata": {"labels": {"spark-role": "placeholder"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Ki"}}}]},
        });
        json_patch::merge(&mut pod, &differs);
        placement(pod).unwrap()
    };
    assert_eq!(seat(json!({})).node, None);
    let accepted = seat(json!({"status": {"startTime": "2026-11-21T08:00:00Z"}}));
    assert_eq!(accepted.node.as_deref(), Some("n1"));
    let requests = BTreeMap::from([("cpu".to_owned(), 1000), ("memory".to_owned(), 1_024_000)]);
    assert_eq!(accepted.requests, requests);

    let gates = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    let executor = |cpu: &str, names: &[&str]| {
        let resources = json!([{"name": "a", "resources": {"requests": {"cpu": cpu}}}]);
        let spec = json!({"nodeName": null, "containers": resources, "schedulingGates": gates(names)});
        seat(json!({"metadata": {"labels": {"spark-role": "executor"}}, "spec": spec}))
    };
    let gate = "sparkoperator.k8s.io/gang";
    let excess = |cpu: &str| excess(&executor(cpu, &[gate]), &accepted);
    assert_eq!([excess("1"), excess("1100m")], [None, Some("1100m cpu instead of 1".to_owned())]);
    let gated = [&[gate][..], &[gate, "tenant/hold"]].map(|gates| executor("1", gates));
    assert_eq!(gated.map(|seat| (seat.gate.is_some(), seat.has_other_gates)), [(true, false), (true, true)]);
}

/// The scheduler also nominates a node to a pod whose volumes it waits for. Applications wait only for executors that
/// had the gate.
#[test]
fn a_nominated_pod_takes_part_in_exchanges_only_if_it_had_the_gate() {
    let seat = |annotations: Value| {
        let pod = json!({
            "metadata": {"labels": {"spark-role": "executor"}, "annotations": annotations},
            "spec": {"containers": [{"name": "a"}]}, "status": {"nominatedNodeName": "n1"},
        });
        placement(pod).map(|seat| seat.nominated.unwrap())
    };
    assert_eq!(seat(json!({})), None);
    let gated = json!({"sparkoperator.k8s.io/scheduling-gate": "sparkoperator.k8s.io/gang"});
    assert_eq!(seat(gated).as_deref(), Some("n1"));
}

fn placement(pod: Value) -> Option<Placement> {
    PodSummary::of(&serde_json::from_value(pod).unwrap()).placement().cloned()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    batch_scheduler: String,
    default: Option<String>,
    options: BatchSchedulerOptions,
    #[serde(default)]
    refused: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[test]
fn options_that_the_scheduler_refuses_or_ignores_are_reported() {
    for case in yaml::<Vec<Options>>(&data("gang/options.yaml")) {
        let Options { batch_scheduler, default, options, refused, warnings } = case;
        let schedulers = BatchSchedulers::new(vec!["coscheduler".to_owned()], true, default).unwrap();
        let found = schedulers.examine("spec", &batch_scheduler, &options);
        let said: Vec<_> = found.invalid.iter().map(ToString::to_string).collect();
        assert_eq!((said, found.warnings), (refused, warnings), "{batch_scheduler}: {options:?}");
    }
}

/// These annotations are those by which the operator puts pods into groups. If users could set them, they could put a
/// driver into the group of another application.
#[test]
fn annotations_of_the_users_own_put_no_pod_into_a_group_or_behind_a_gate() {
    let marks = [annotation::POD_GROUP, annotation::SCHEDULING_GATE];
    let mut application = application(&json!({}));
    application.metadata.annotations = Some(marks.map(|mark| (mark.to_owned(), "another".to_owned())).into());
    let policy = Policy { submitter: Submitter::Native, ..Policy::new("k8s://https://10.96.0.1:443") };
    let (By::Native(objects) | By::Pod { objects, .. }) = chosen(&application, &policy).unwrap().request.by;
    let made = json!([objects.pod, objects.children]).to_string();
    assert!(marks.iter().all(|mark| !made.contains(mark)), "{made}");
}

#[test]
fn where_gangs_are_off_the_refusal_names_their_flag() {
    let schedulers = BatchSchedulers::new(Vec::new(), false, None).unwrap();
    let found = schedulers.examine("spec", "kubernetes", &BatchSchedulerOptions::default());
    let why = "`kubernetes` is only possible where the administrator sets --enable-kubernetes-gangs";
    assert_eq!(found.invalid, [Invalid { field: "spec.batchScheduler".to_owned(), why: why.to_owned() }]);
}
