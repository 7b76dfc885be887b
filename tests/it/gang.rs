//! Tests what a batch scheduler is told about the pods of an application. The cases are in `tests/data/gang`.

use crate::golden::{Golden, data, yaml};
use api::{
    BatchSchedulerOptions, SparkApplication,
    names::{annotation, label},
};
use jiff::Timestamp;
use plan::{
    By, Policy,
    gang::{BatchSchedulers, GroupApi, PodGroupVersion, possible},
    pod_summary::PodSummary,
    run::Run,
    submission::{SubmissionEnvironment, Submitter, choose},
};
use serde::Deserialize;
use serde_json::{Value, json};
use spark_client::{Child, Objects, read_properties};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    case: String,
    #[serde(default)]
    kube_schedulers: Vec<String>,
    default: Option<String>,
    spec: Value,
    /// The scheduler of driver and executors.
    scheduler: Option<String>,
    /// API version, name and spec of the object that is created first.
    group: Option<Value>,
    /// The labels and annotations of driver and executors, without those that every application has, by the end of the
    /// property that sets them.
    #[serde(default)]
    both: BTreeMap<String, String>,
    #[serde(default)]
    driver: BTreeMap<String, String>,
    #[serde(default)]
    executor: BTreeMap<String, String>,
    refused: Option<String>,
}

#[test]
fn a_batch_scheduler_gets_the_group_and_finds_its_pods_whoever_submits() {
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
                assert_eq!(objects.pod["spec"]["schedulerName"], Value::Null, "{name}: it is in no group");
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
    let schedulers = BatchSchedulers::new(case.kube_schedulers.clone(), false, case.default.clone()).unwrap();
    Policy { batch_schedulers: Some(schedulers), ..Policy::new("k8s://https://10.96.0.1:443") }
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
    let spec = json!({
        "batchScheduler": "kubernetes",
        "imagePullPolicy": "Always",
        "imagePullSecrets": ["pull"],
        "driver": {"priorityClassName": "urgent"},
        "executor": {
            "instances": 2, "memory": "512m", "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "spot", "operator": "Exists"}],
            "gpu": {"name": "nvidia.com/gpu", "quantity": 1}, "podSecurityContext": {"runAsNonRoot": true},
            "securityContext": {"allowPrivilegeEscalation": false},
        },
    });
    let application = application(&spec);
    let schedulers = BatchSchedulers::new(Vec::new(), true, None).unwrap();
    let mut golden = Golden::default();
    for version in PodGroupVersion::ALL {
        for submitter in [Submitter::Native, Submitter::SparkSubmit] {
            let policy = Policy {
                submitter,
                batch_schedulers: Some(schedulers.clone()),
                ..Policy::new("k8s://https://10.96.0.1:443")
            };
            let environment =
                SubmissionEnvironment { pod_groups: Some(version), ..SubmissionEnvironment::default() };
            let run = Run::next(&application);
            let chosen = choose(&application, &run, &environment, &policy, Timestamp::UNIX_EPOCH).unwrap();
            let (By::Native(objects) | By::Pod { objects, .. }) = chosen.request.by;
            let group = objects.children[1]["metadata"]["name"].as_str().unwrap();
            for object in &objects.children[..2] {
                let kind = Child::of(object).unwrap().kind;
                assert_eq!(GroupApi::of(&kind), Some(GroupApi::Kubernetes(version)), "{kind}");
            }
            let version = version.api_version().rsplit('/').next().unwrap();
            golden.compare_yaml(
                &data(&format!("gang/kubernetes-{version}.yaml")),
                &objects.children[..4].to_vec(),
            );
            let template = json!(objects.children[4..]).to_string();
            assert!(template.contains("scheduling-gate\\\":\\\"sparkoperator.k8s.io/gang"), "{template}");
            if submitter == Submitter::Native {
                assert_eq!(objects.pod["spec"]["schedulingGroup"], json!({"podGroupName": group}));
                assert_eq!(objects.pod["spec"]["schedulerName"], Value::Null);
            } else {
                assert_eq!(objects.pod["spec"]["schedulingGroup"], Value::Null, "it runs before the driver");
            }
        }
    }
    golden.finish();
}

/// The annotations of the contract are removed where no webhook reads them, but the operator reads this one.
#[test]
fn without_the_webhook_too_the_operator_recognises_the_group_of_a_driver_that_spark_submit_has_created() {
    let application = application(&json!({"batchScheduler": "kubernetes"}));
    let policy = Policy {
        submitter: Submitter::SparkSubmit,
        has_webhook: false,
        batch_schedulers: Some(BatchSchedulers::new(Vec::new(), true, None).unwrap()),
        ..Policy::new("k8s://https://10.96.0.1:443")
    };
    let environment = SubmissionEnvironment {
        pod_groups: Some(PodGroupVersion::V1beta1),
        ..SubmissionEnvironment::default()
    };
    let run = Run::next(&application);
    let chosen = choose(&application, &run, &environment, &policy, Timestamp::UNIX_EPOCH).unwrap();
    let (By::Native(objects) | By::Pod { objects, .. }) = chosen.request.by;
    let group = objects.children.iter().find(|object| object["kind"] == "PodGroup").unwrap();
    let group = Child::of(group).unwrap();
    let mut templates =
        objects.children.iter().filter_map(|child| child["data"]["driver-pod-template.yaml"].as_str());
    let template: Value = serde_json::from_str(templates.next().unwrap()).unwrap();
    assert_eq!(template["metadata"]["annotations"], json!({annotation::POD_GROUP: group.name}));
    assert_eq!(template["spec"]["schedulingGroup"], json!({"podGroupName": group.name}));

    // Spark keeps the annotations of the template.
    let driver = PodSummary::of(&serde_json::from_value(template).unwrap());
    let children = possible(&application, run.id.as_str(), &policy, Some(&driver));
    assert!(children.contains(&group), "{children:?}");
}

/// The submission pod is in no group. For such a pod Volcano creates a group in its default queue, which may be full.
#[test]
fn a_submission_pod_is_placed_by_the_scheduler_of_its_driver_but_by_no_batch_scheduler() {
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
        let policy = Policy {
            submitter: Submitter::SparkSubmit,
            batch_schedulers,
            ..Policy::new("k8s://https://10.96.0.1:443")
        };
        let environment = SubmissionEnvironment {
            pod_groups: Some(PodGroupVersion::V1beta1),
            ..SubmissionEnvironment::default()
        };
        let run = Run::next(&application);
        let chosen = choose(&application, &run, &environment, &policy, Timestamp::UNIX_EPOCH).unwrap();
        let (By::Native(objects) | By::Pod { objects, .. }) = chosen.request.by;
        assert_eq!(objects.pod["spec"]["schedulerName"].as_str(), expected, "{spec}");
    }
}

#[test]
fn without_pod_groups_in_the_cluster_the_submission_fails_with_what_helps() {
    let application = application(&json!({"batchScheduler": "kubernetes"}));
    let schedulers = BatchSchedulers::new(Vec::new(), true, None).unwrap();
    let policy = Policy { batch_schedulers: Some(schedulers), ..Policy::new("k8s://https://10.96.0.1:443") };
    let environment = SubmissionEnvironment::default();
    let run = Run::next(&application);
    let why = choose(&application, &run, &environment, &policy, Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(why.contains("it needs Kubernetes 1.36 or later, the feature gate GenericWorkload"), "{why}");
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
fn options_that_the_scheduler_cannot_take_or_has_no_use_for_are_named() {
    for case in yaml::<Vec<Options>>(&data("gang/options.yaml")) {
        let Options { batch_scheduler, default, options, refused, warnings } = case;
        let schedulers = BatchSchedulers::new(vec!["coscheduler".to_owned()], true, default).unwrap();
        let found = schedulers.check("spec", &batch_scheduler, &options);
        let said: Vec<_> = found.refused.into_iter().map(|(field, why)| format!("{field}: {why}")).collect();
        assert_eq!((said, found.warnings), (refused, warnings), "{batch_scheduler}: {options:?}");
    }
}

/// By these annotations the operator puts pods into groups. A user's own would put a driver into the group of another
/// application.
#[test]
fn annotations_of_the_users_own_put_no_pod_into_a_group_or_behind_a_gate() {
    let marks = [annotation::POD_GROUP, annotation::SCHEDULING_GATE];
    let mut application = application(&json!({}));
    application.metadata.annotations = Some(marks.map(|mark| (mark.to_owned(), "another".to_owned())).into());
    let policy = Policy { submitter: Submitter::Native, ..Policy::new("k8s://https://10.96.0.1:443") };
    let run = Run::next(&application);
    let environment = SubmissionEnvironment::default();
    let chosen = choose(&application, &run, &environment, &policy, Timestamp::UNIX_EPOCH).unwrap();
    let (By::Native(objects) | By::Pod { objects, .. }) = chosen.request.by;
    let made = json!([objects.pod, objects.children]).to_string();
    assert!(marks.iter().all(|mark| !made.contains(mark)), "{made}");
}

#[test]
fn where_gangs_are_off_the_refusal_names_their_flag() {
    let schedulers = BatchSchedulers::new(Vec::new(), false, None).unwrap();
    let found = schedulers.check("spec", "kubernetes", &BatchSchedulerOptions::default());
    let why = "`kubernetes` is only possible where the administrator sets --enable-kubernetes-gangs";
    assert_eq!(found.refused, [("spec.batchScheduler".to_owned(), why.to_owned())]);
}
