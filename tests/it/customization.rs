//! Proves that the webhook changes Spark's pods as their annotations say, that a second review changes nothing, and
//! that the defaults which the API server sets make no difference.

use crate::{prelude::*, stored::stored};
use pod_customization::{Denial, STEPS, Step, annotations, customized};

#[test]
fn a_pod_is_changed_as_its_annotations_say() {
    let mut golden = Golden::default();
    for (case, before) in pods() {
        let mut after = admitted(&before);
        // The annotations do not change, and the file is easier to read without them.
        assert_eq!(
            after["metadata"]["annotations"].take(),
            before["metadata"]["annotations"],
            "{}",
            case.display()
        );
        after["metadata"].as_object_mut().unwrap().remove("annotations");
        golden.compare_yaml(&case.join("pod.after.yaml"), &after);
    }
    golden.finish();
}

#[test]
fn annotations_beyond_the_bounds_are_not_parsed() {
    let denials = |key: &str, text: String| {
        let pod = json!({
            "metadata": {"labels": {"spark-role": "driver"}, "annotations": {key: text}},
            "spec": {"containers": [{"name": "spark-kubernetes-driver"}]},
        });
        customized(&pod).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let list = |items: usize| format!("[{}]", vec!["{}"; items].join(","));
    assert_eq!(
        denials(annotation::SIDECARS, list(6_000)),
        [
            "annotation sparkoperator.k8s.io/sidecars at [4999]: is beyond the 5000 lists and maps that an object may have: move \
             what is so long into ConfigMaps or files"
        ]
    );
    let hidden = format!(r#"{{"metadata":{{"managedFields":{}}}}}"#, list(6_000));
    let [denial] = &denials(annotation::POD_SECURITY_CONTEXT, hidden)[..] else { panic!() };
    assert!(denial.contains(" at metadata.managedFields[4997]: is beyond"), "{denial}");
    assert_eq!(
        denials(annotation::SIDECARS, list(100_000)),
        [
            "annotations sparkoperator.k8s.io/…: they have 300030 bytes, and Kubernetes allows 262144: move large values into \
             ConfigMaps"
        ]
    );
}

/// A pod is reviewed twice if a second webhook configuration matches it. Between the two reviews the API server sets
/// its defaults.
#[test]
fn a_second_review_changes_nothing_even_after_api_server_defaults() {
    for (case, before) in pods() {
        let once = admitted(&before);
        for once in [stored(&once), once] {
            assert_eq!(admitted(&once), once, "{}", case.display());
        }
    }
}

/// Between the two reviews a service mesh adds a container and a variable, and another webhook replaces the registry of
/// the images by a mirror.
#[test]
fn a_second_review_after_changes_of_other_webhooks_changes_nothing() {
    let mut pod = stored(&admitted(&yaml(&data("apiserver/driver-pod.yaml"))));
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({"name": "mesh", "image": "example.com/mesh:1", "resources": {}}));
    for container in containers {
        let env = container.as_object_mut().unwrap().entry("env").or_insert_with(|| json!([]));
        env.as_array_mut().unwrap().push(json!({"name": "MESH", "value": "on"}));
        let image = container["image"].as_str().unwrap().rsplit('/').next().unwrap();
        container["image"] = json!(format!("mirror.internal/{image}"));
    }
    assert_eq!(admitted(&pod), pod);
}

/// Usually the API server has set its defaults already before the first review of a pod.
#[test]
fn a_pod_with_defaults_gets_the_same_changes_as_one_without() {
    for (case, before) in pods() {
        let (plain, defaulted) = (stored(&admitted(&before)), stored(&admitted(&stored(&before))));
        for list in ["env", "envFrom", "resources", "securityContext", "lifecycle"] {
            let of = |pod: &Value| pod["spec"]["containers"][0][list].clone();
            assert_eq!(of(&defaulted), of(&plain), "{}: {list}", case.display());
        }
        for field in ["securityContext", "affinity", "dnsConfig", "dnsPolicy", "hostAliases", "nodeSelector"]
        {
            assert_eq!(defaulted["spec"][field], plain["spec"][field], "{}: {field}", case.display());
        }
    }
}

#[test]
fn a_pod_without_annotations_of_the_operator_stays_as_it_is() {
    let odd = json!({"metadata": {"annotations": {"sparkoperator.k8s.io/wormhole": "{"}}, "spec": {"containers": 5}});
    for pod in [json!({}), json!({"metadata": {"annotations": null}}), odd] {
        assert_eq!(customized(&pod), Ok(pod));
    }
}

/// Thus every case covers drivers, executors, and executors of Spark 2. Owner references are left out, because only
/// drivers get one from the webhook.
#[test]
fn pod_mutation_depends_neither_on_role_nor_on_the_container_name() {
    const NAMES: [&str; 3] = ["spark-kubernetes-driver", "spark-kubernetes-executor", "executor"];
    let named = |pod: &Value, name: &str| {
        let mut pod = pod.clone();
        let role = if name == NAMES[0] { "driver" } else { "executor" };
        pod["metadata"]["labels"]["spark-role"] = role.into();
        for container in pod["spec"]["containers"].as_array_mut().unwrap() {
            if NAMES.iter().any(|known| container["name"] == *known) {
                container["name"] = name.into();
            }
        }
        pod
    };
    for (case, mut before) in pods() {
        before["metadata"]["annotations"].as_object_mut().unwrap().remove(annotation::OWNER_REFERENCE);
        let after = admitted(&before);
        for name in NAMES {
            assert_eq!(admitted(&named(&before, name)), named(&after, name), "{}: {name}", case.display());
        }
    }
}

/// Fails if somebody adds a step without a case.
#[test]
fn there_is_a_case_for_each_step_alone_and_one_for_all_together() {
    let asked: Vec<Vec<_>> = pods()
        .map(|(_, pod)| {
            let is_asked = |step: &&Step| pod["metadata"]["annotations"][step.key].is_string();
            STEPS.iter().filter(is_asked).map(|step| step.key).collect()
        })
        .collect();
    for step in &STEPS {
        assert!(asked.iter().any(|keys| keys[..] == [step.key]), "{} alone", step.key);
    }
    assert!(asked.iter().any(|keys| keys.len() == STEPS.len()));
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Denied {
    case: String,
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    pod: Map<String, Value>,
    denied: Vec<String>,
}

#[test]
fn every_invalid_value_is_reported_with_its_annotation_and_path() {
    for Denied { case, annotations, pod: changes, denied } in
        yaml::<Vec<_>>(&data("customization/denied.yaml"))
    {
        let annotations: BTreeMap<_, _> = annotations
            .into_iter()
            .map(|(key, value)| (format!("{}{key}", annotation::PREFIX), value))
            .collect();
        let mut pod = json!({
            "metadata": {"labels": {"spark-role": "driver"}, "annotations": annotations},
            "spec": {
                "containers": [{
                    "name": "spark-kubernetes-driver",
                    "volumeMounts": [{"name": "conf", "mountPath": "/opt/spark/conf"}],
                }],
                "volumes": [{"name": "conf", "configMap": {"name": "spark-drv-conf-map"}}],
            },
        });
        json_patch::merge(&mut pod, &Value::from(changes));
        let said: Vec<_> = customized(&pod).unwrap_err().iter().map(Denial::to_string).collect();
        assert_eq!(said, denied, "{case}");
    }
}

#[test]
fn customizations_of_an_application_become_annotations() {
    let (application, mut golden) = (everything(), Golden::default());
    for role in Role::ALL {
        let file = data("annotations").join(format!("{}.annotations.yaml", role.as_str()));
        golden.compare_yaml(&file, &annotations(&application, role));
    }
    golden.finish();
}

#[test]
fn a_pod_with_an_applications_annotations_gets_its_customizations() {
    let (application, mut golden) = (everything(), Golden::default());
    for role in Role::ALL {
        let file = |name: &str| data("annotations").join(format!("{}.{name}.yaml", role.as_str()));
        let mut pod: Value = yaml(&file("pod"));
        pod["metadata"]["annotations"] = json!(annotations(&application, role));
        let once = admitted(&pod);
        assert_eq!(admitted(&stored(&once)), stored(&once), "{}: a second review", role.as_str());
        golden.compare_yaml(&file("customized"), &once["spec"]);
    }
    golden.finish();
}

/// Values that Kubeflow's operator treats as unset cause no customization.
#[test]
fn without_customizations_only_the_driver_has_annotations() {
    let unset = json!({
        "gpu": {"name": "", "quantity": 1}, "priorityClassName": "", "schedulerName": "default-scheduler", "hostNetwork": false,
        "shareProcessNamespace": false, "env": [], "tolerations": [], "nodeSelector": {},
    });
    let without_gpu = json!({"gpu": {"name": "nvidia.com/gpu", "quantity": 0}});
    for spec in [
        json!({"driver": {}, "executor": {}}),
        json!({"batchScheduler": "", "driver": without_gpu, "executor": unset}),
    ] {
        let application = json!({"metadata": {"name": "pi", "uid": "1"}, "spec": spec});
        let application: SparkApplication = serde_json::from_value(application).unwrap();
        let keys: Vec<_> = annotations(&application, Role::Driver).into_keys().collect();
        assert_eq!(keys, [annotation::CONTRACT, annotation::OWNER_REFERENCE], "{spec}");
        assert_eq!(annotations(&application, Role::Executor), BTreeMap::new(), "{spec}");
    }
}

/// Returns every case with its pod as Spark created it.
fn pods() -> impl Iterator<Item = (PathBuf, Value)> {
    cases("customization").into_iter().map(|case| {
        let pod = yaml(&case.join("pod.before.yaml"));
        (case, pod)
    })
}

fn admitted(pod: &Value) -> Value {
    customized(pod).unwrap_or_else(|denials| panic!("{denials:?}"))
}

/// Returns an application in which every field is set.
fn everything() -> SparkApplication {
    let mut application: SparkApplication = yaml(&data("api/sparkapplication.yaml"));
    application.metadata.uid = Some("6c1f0b5e-0000-4000-8000-000000000001".into());
    application
}
