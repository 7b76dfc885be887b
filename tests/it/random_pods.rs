//! Tests the customization of random pods with random annotations. The generators use so few names that names often
//! clash.

use crate::{prelude::*, stored::stored};
use api::names::annotation::PREFIX;
use pod_customization::{STEPS, customized};
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest},
    sample::{select, subsequence},
    strategy::{BoxedStrategy, ValueTree},
    test_runner::{Config, RngSeed, TestRunner},
};
use std::sync::LazyLock;

const CASES: u32 = 2000;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_second_call_changes_nothing(pod in pod()) {
        if let Ok(once) = customized(&pod) {
            prop_assert_eq!(customized(&once), Ok(once));
        }
    }

    #[test]
    fn a_second_call_changes_nothing_of_what_the_api_server_made_of_the_first(pod in pod()) {
        if let Ok(once) = customized(&pod) {
            let once = stored(&once);
            prop_assert_eq!(customized(&once), Ok(once));
        }
    }

    /// The pods have unknown fields everywhere, and these must stay unchanged as well.
    #[test]
    fn nothing_changes_that_was_not_asked_for(pod in pod()) {
        if let Ok(once) = customized(&pod) {
            let (mut before, mut after) = (pod.clone(), once);
            let at = spark_container(&pod);
            for (key, changes) in &*CHANGES {
                if pod["metadata"]["annotations"][format!("{PREFIX}{key}")].is_string() {
                    for change in changes {
                        undo(&mut before, &mut after, &change.replace('@', &at));
                    }
                }
            }
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn a_patch_makes_the_same_pod(pod in pod()) {
        if let Ok(once) = customized(&pod) {
            let mut patched = pod.clone();
            json_patch::patch(&mut patched, &json_patch::diff(&pod, &once)).unwrap();
            prop_assert_eq!(patched, once);
        }
    }
}

/// Every run uses the same pods: a test that fails only sometimes helps nobody.
fn config() -> Config {
    Config { cases: CASES, failure_persistence: None, rng_seed: RngSeed::Fixed(5), ..Config::default() }
}

/// If most pods were refused, or a step were never used, the property tests would check little.
#[test]
fn many_of_the_pods_are_admitted_and_each_step_takes_part() {
    let mut taken_part = vec![0; STEPS.len()];
    let pods = drawn(CASES);
    let admitted: Vec<_> = pods.iter().filter(|pod| customized(pod).is_ok()).collect();
    for pod in &admitted {
        for (i, step) in STEPS.iter().enumerate() {
            taken_part[i] += usize::from(pod["metadata"]["annotations"][step.key].is_string());
        }
    }
    assert!(admitted.len() > pods.len() / 4, "{} of {}", admitted.len(), pods.len());
    assert!(taken_part.iter().all(|count| *count > 20), "{taken_part:?}");
}

/// Returns random pods, which are the same in every run.
pub fn drawn(count: u32) -> Vec<Value> {
    let (mut runner, pod) = (TestRunner::deterministic(), pod());
    (0..count).map(|_| pod.new_tree(&mut runner).unwrap().current()).collect()
}

/// The changes that each annotation may make.
static CHANGES: LazyLock<Vec<(String, Vec<String>)>> =
    LazyLock::new(|| yaml(&data("annotations/changes.yaml")));

/// Undoes an allowed change: a list (`+`) in `after` is cut to its length in `before`, and any other value is removed
/// from both. Objects and lists that are empty then are removed from both, because the change may have created them.
fn undo(before: &mut Value, after: &mut Value, change: &str) {
    let pointer = change.trim_start_matches('+');
    if change.starts_with('+') {
        let length = before.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len);
        if let Some(Value::Array(list)) = after.pointer_mut(pointer) {
            list.truncate(length);
        }
    } else {
        remove(before, pointer);
        remove(after, pointer);
    }
    // A change at `/a/b` may have created `/a` as well.
    for (at, _) in pointer.rmatch_indices('/').filter(|(at, _)| *at > 0).chain([(pointer.len(), "")]) {
        for pod in [&mut *before, &mut *after] {
            let is_empty =
                pod.pointer(&pointer[..at]).is_some_and(|value| *value == json!({}) || *value == json!([]));
            if is_empty {
                remove(pod, &pointer[..at]);
            }
        }
    }
}

fn remove(pod: &mut Value, pointer: &str) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    if let Some(Value::Object(parent)) = pod.pointer_mut(parent) {
        parent.remove(&name.replace("~1", "/"));
    }
}

/// Returns the pointer to Spark's container in `pod`, which always has one of Spark's names.
fn spark_container(pod: &Value) -> String {
    let names = ["spark-kubernetes-driver", "spark-kubernetes-executor", "executor"];
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let at = containers.iter().position(|container| names.contains(&container["name"].as_str().unwrap()));
    format!("/spec/containers/{}", at.unwrap())
}

/// Generates a pod of Spark with annotations.
fn pod() -> impl Strategy<Value = Value> {
    let roles = [
        ("driver", "spark-kubernetes-driver"),
        ("executor", "spark-kubernetes-executor"),
        ("executor", "executor"),
    ];
    let asked = subsequence(ASKED.to_vec(), 1..8).prop_flat_map(|asked| {
        asked.into_iter().map(|(key, value)| value().prop_map(move |value| (key, value))).collect::<Vec<_>>()
    });
    (select(roles.to_vec()), spec(), container(), option::of(containers()), any::<bool>(), asked).prop_map(
        |((role, name), mut spec, mut spark, others, is_last, asked)| {
            spark["name"] = name.into();
            let mut containers = others.unwrap_or_default();
            containers.insert(if is_last { containers.len() } else { 0 }, spark);
            spec["containers"] = containers.into();
            let mut pod = json!({
                "metadata": {"labels": {"spark-role": role}, "annotations": {"unknown": "1"}, "unknown": {"a": [null, 1]}},
                "spec": spec, "unknown": [{"b": 2}],
            });
            for (key, value) in asked {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                pod["metadata"]["annotations"][format!("{PREFIX}{key}")] = text.into();
            }
            pod
        },
    )
}

type Drawn = BoxedStrategy<Value>;

/// The name of an annotation, and a generator of its values.
type Asked = (&'static str, fn() -> Drawn);

/// The values that each annotation may have.
const ASKED: [Asked; 29] = [
    ("owner-reference", || {
        name().prop_map(|name| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": name})).boxed()
    }),
    ("env", || list(env())),
    ("env-from", || list(env_from())),
    ("hadoop-config-map", || name().prop_map(Value::from).boxed()),
    ("spark-config-map", || name().prop_map(Value::from).boxed()),
    ("config-maps", || list((name(), path()).prop_map(|(name, path)| json!({"name": name, "path": path})))),
    ("volumes", || list(volume())),
    ("volume-mounts", || list(mount())),
    ("ports", || list(port())),
    ("host-network", || any::<bool>().prop_map(Value::from).boxed()),
    ("host-aliases", || list(alias())),
    ("init-containers", || containers().prop_map(Value::from).boxed()),
    ("sidecars", || containers().prop_map(Value::from).boxed()),
    ("dns-config", || dns()),
    ("priority-class-name", || name().prop_map(Value::from).boxed()),
    ("scheduler-name", || name().prop_map(Value::from).boxed()),
    ("pod-group", || name().prop_map(Value::from).boxed()),
    ("scheduling-gate", || name().prop_map(Value::from).boxed()),
    ("node-selector", || btree_map(name(), name(), 0..3).prop_map(|map| json!(map)).boxed()),
    ("affinity", || affinity()),
    ("tolerations", || list(toleration())),
    ("memory-limit", || quantity()),
    ("gpu", || (0..3).prop_map(|n| json!({"name": "nvidia.com/gpu", "quantity": n})).boxed()),
    ("prometheus", || {
        (name(), 1..3)
            .prop_map(|(name, port)| json!({"configMap": name, "port": port, "portName": name}))
            .boxed()
    }),
    ("security-context", || security()),
    ("pod-security-context", || security()),
    ("termination-grace-period-seconds", || (0..3).prop_map(Value::from).boxed()),
    ("lifecycle", || lifecycle()),
    ("share-process-namespace", || any::<bool>().prop_map(Value::from).boxed()),
];

fn name() -> impl Strategy<Value = &'static str> {
    select(&["a", "b"][..])
}

fn path() -> impl Strategy<Value = &'static str> {
    select(&["/a", "/b", "/etc/hadoop/conf", "/etc/metrics/conf"][..])
}

fn quantity() -> Drawn {
    select(&["1Gi", "1024Mi", "1.5Gi", "2000M", "0"][..]).prop_map(Value::from).boxed()
}

fn list(entry: impl Strategy<Value = Value> + 'static) -> Drawn {
    vec(entry, 0..4).prop_map(Value::from).boxed()
}

/// Generates `object`, in half of the cases with an additional field that is unknown.
fn odd(object: impl Strategy<Value = Value> + 'static) -> Drawn {
    let unknown = option::of(select(vec![json!(1), json!("x"), json!({"y": [null, {"z": false}]})]));
    (object, unknown)
        .prop_map(|(mut object, unknown)| {
            if let Some(unknown) = unknown {
                object["unknown"] = unknown;
            }
            object
        })
        .boxed()
}

fn env() -> Drawn {
    let value = select(vec![
        json!({}),
        json!({"value": ""}),
        json!({"value": "1"}),
        json!({"value": "$(A) \"{{APP_ID}}\n"}),
        json!({"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
        json!({"valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}),
    ]);
    let name = prop_oneof![name(), select(&["HADOOP_CONF_DIR", "SPARK_CONF_DIR"][..])];
    odd((name, value).prop_map(|(name, value)| with(json!({"name": name}), &value)))
}

fn env_from() -> Drawn {
    let kind = select(&["secretRef", "configMapRef"][..]);
    let prefix = select(vec![json!({}), json!({"prefix": ""}), json!({"prefix": "P"})]);
    odd((kind, name(), prefix).prop_map(|(kind, name, prefix)| with(json!({kind: {"name": name}}), &prefix)))
}

fn volume() -> Drawn {
    let what = select(vec![
        json!({}),
        json!({"emptyDir": {}}),
        json!({"emptyDir": {"sizeLimit": "1024Mi"}}),
        json!({"configMap": {"name": "a"}}),
        json!({"hostPath": {"path": "/a"}}),
    ]);
    odd((name(), what).prop_map(|(name, what)| with(json!({"name": name}), &what)))
}

fn mount() -> Drawn {
    let more = select(vec![json!({}), json!({"readOnly": false}), json!({"readOnly": true, "subPath": "s"})]);
    let volume = select(&["a", "b", "b", "there"][..]);
    odd((volume, path(), more)
        .prop_map(|(name, path, more)| with(json!({"name": name, "mountPath": path}), &more)))
}

fn port() -> Drawn {
    let more =
        select(vec![json!({}), json!({"protocol": "TCP"}), json!({"protocol": "UDP"}), json!({"name": "p"})]);
    odd((1..3, more).prop_map(|(port, more)| with(json!({"containerPort": port}), &more)))
}

fn alias() -> Drawn {
    odd((select(&["10.0.0.1", "10.0.0.2"][..]), vec(name(), 1..3))
        .prop_map(|(ip, names)| json!({"ip": ip, "hostnames": names})))
}

fn dns() -> Drawn {
    let searches = option::of(vec(name(), 0..2));
    odd(searches.prop_map(|searches| searches.map_or(json!({}), |searches| json!({"searches": searches}))))
}

fn affinity() -> Drawn {
    odd(select(vec![
        json!({}),
        json!({"nodeAffinity": {}}),
        json!({"podAntiAffinity": {"x": [{"weight": 1}]}}),
    ]))
}

fn toleration() -> Drawn {
    let key = select(vec![json!({}), json!({"key": ""}), json!({"key": "k"})]);
    let more = select(vec![
        json!({"operator": "Exists"}),
        json!({"operator": "Exists", "effect": ""}),
        json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}),
    ]);
    odd((key, more).prop_map(|(key, more)| with(key, &more)))
}

fn security() -> Drawn {
    odd(select(vec![json!({}), json!({"runAsUser": 0}), json!({"runAsNonRoot": true, "runAsUser": 185})]))
}

fn lifecycle() -> Drawn {
    odd(select(vec![
        json!({}),
        json!({"preStop": {"exec": {"command": ["sync"]}}}),
        json!({"preStop": {"httpGet": {"port": 80}}}),
    ]))
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let one = (select(&["a", "b", "c"][..]), select(&["i:1", "i:2"][..]));
    let one = odd(one.prop_map(|(name, image)| json!({"name": name, "image": image})));
    vec(one, 0..3).prop_map(|mut containers| {
        // Kubernetes does not allow two containers with the same name.
        containers.sort_by_key(|container| container["name"].to_string());
        containers.dedup_by_key(|container| container["name"].clone());
        containers
    })
}

/// Generates Spark's container, in which each field that annotations can change may already have entries.
fn container() -> Drawn {
    let resources =
        odd((option::of(quantity()), any::<bool>()).prop_map(|(memory, is_empty)| match memory {
            Some(memory) => json!({"limits": {"memory": memory, "cpu": "1"}}),
            None if is_empty => json!({"limits": {}}),
            None => json!({}),
        }));
    let fields: Vec<(&str, Drawn)> = vec![
        ("env", list(env())),
        ("envFrom", list(env_from())),
        ("volumeMounts", unique(list(mount()), "mountPath")),
        ("ports", list(port())),
        ("resources", resources),
        ("securityContext", security()),
        ("lifecycle", lifecycle()),
    ];
    odd(some(fields))
}

fn spec() -> Drawn {
    let there = json!({"name": "there", "emptyDir": {}});
    let volumes = unique(list(volume()), "name").prop_map(move |mut volumes| {
        volumes.as_array_mut().unwrap().push(there.clone());
        volumes
    });
    let fields: Vec<(&str, Drawn)> = vec![
        ("volumes", volumes.boxed()),
        ("initContainers", containers().prop_map(Value::from).boxed()),
        ("hostAliases", list(alias())),
        ("tolerations", list(toleration())),
        ("nodeSelector", btree_map(select(&["a", "c"][..]), name(), 0..3).prop_map(|map| json!(map)).boxed()),
        ("dnsPolicy", Just(json!("ClusterFirst")).boxed()),
        ("dnsConfig", dns()),
        ("affinity", affinity()),
        ("securityContext", security()),
        ("priorityClassName", name().prop_map(Value::from).boxed()),
        ("priority", Just(json!(10)).boxed()),
        ("schedulerName", name().prop_map(Value::from).boxed()),
    ];
    odd(some(fields))
}

/// Generates an object with some of these fields.
fn some(fields: Vec<(&'static str, Drawn)>) -> impl Strategy<Value = Value> {
    let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    values.into_iter().map(|value| option::weighted(0.5, value)).collect::<Vec<_>>().prop_map(move |values| {
        let there = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        Value::Object(there.collect())
    })
}

/// Keeps only one of the entries with the same `key`, because Kubernetes does not allow more.
fn unique(list: Drawn, key: &'static str) -> Drawn {
    list.prop_map(move |mut list| {
        let entries = list.as_array_mut().unwrap();
        entries.sort_by_key(|entry| entry[key].to_string());
        entries.dedup_by_key(|entry| entry[key].clone());
        list
    })
    .boxed()
}

fn with(mut object: Value, more: &Value) -> Value {
    json_patch::merge(&mut object, more);
    object
}
