//! Tests the customization of random pods with random annotations. The generators use so few names that names often
//! clash.

use crate::{prelude::*, stored::stored};
use api::names::annotation::PREFIX;
use pod_customization::{STEPS, customized};
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::{Just, Strategy, any, prop_assert_eq, proptest},
    sample::{select, subsequence},
    strategy::{BoxedStrategy, ValueTree},
    test_runner::{Config, RngSeed, TestRunner},
};
use std::sync::LazyLock;

const CASES: u32 = 2000;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_second_review_changes_nothing_even_after_api_server_defaults(pod in pod()) {
        if let Ok(once) = customized(&pod) {
            for once in [stored(&once), once] {
                prop_assert_eq!(customized(&once), Ok(once));
            }
        }
    }

    /// The pods have unknown fields everywhere, and these must stay unchanged as well.
    #[test]
    fn only_what_the_annotations_may_change_changes(pod in pod()) {
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
    let asked = subsequence(asked(), 1..8).prop_flat_map(|asked| {
        let each = asked.into_iter();
        each.map(|(key, value)| value.prop_map(move |value| (key.clone(), value))).collect::<Vec<_>>()
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

/// The parts of values by annotation: a value consists of one alternative of each part.
type Parts = BTreeMap<String, Vec<Vec<Value>>>;

/// The values that each annotation may have, without those that are containers.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Random {
    lists: Parts,
    values: Parts,
    /// In half of the cases these objects have a field that is unknown.
    odd_lists: Parts,
    odd: Parts,
}

static RANDOM: LazyLock<Random> = LazyLock::new(|| yaml(&data("annotations/random.yaml")));

/// Returns the generators of the values of all annotations.
fn asked() -> Vec<(String, Drawn)> {
    let Random { lists, values, odd_lists, odd } = &*RANDOM;
    let lists = lists.iter().map(|(key, parts)| (key.clone(), list(one_of(parts))));
    let values = values.iter().map(|(key, parts)| (key.clone(), one_of(parts)));
    let odd_lists = odd_lists.keys().map(|key| (key.clone(), list(odd_of(key))));
    let odd = odd.keys().map(|key| (key.clone(), odd_of(key)));
    let of_containers = ["init-containers", "sidecars"]
        .map(|key| (key.to_owned(), containers().prop_map(Value::from).boxed()));
    lists.chain(values).chain(odd_lists).chain(odd).chain(of_containers).collect()
}

fn one_of(parts: &[Vec<Value>]) -> Drawn {
    let parts: Vec<_> = parts.iter().map(|alternatives| select(alternatives.clone())).collect();
    parts.prop_map(|chosen| chosen.iter().fold(Value::Null, with)).boxed()
}

/// Generates an object as it is in the value of this annotation.
fn odd_of(key: &str) -> Drawn {
    let parts = RANDOM.odd_lists.get(key).or_else(|| RANDOM.odd.get(key));
    odd(one_of(parts.expect(key)))
}

fn name() -> impl Strategy<Value = &'static str> {
    select(&["a", "b"][..])
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
    let resources = odd((option::of(one_of(&RANDOM.values["memory-limit"])), any::<bool>()).prop_map(
        |(memory, is_empty)| match memory {
            Some(memory) => json!({"limits": {"memory": memory, "cpu": "1"}}),
            None if is_empty => json!({"limits": {}}),
            None => json!({}),
        },
    ));
    let fields: Vec<(&str, Drawn)> = vec![
        ("env", list(odd_of("env"))),
        ("envFrom", list(odd_of("env-from"))),
        ("volumeMounts", unique(list(odd_of("volume-mounts")), "mountPath")),
        ("ports", list(odd_of("ports"))),
        ("resources", resources),
        ("securityContext", odd_of("security-context")),
        ("lifecycle", odd_of("lifecycle")),
    ];
    odd(some(fields))
}

fn spec() -> Drawn {
    let there = json!({"name": "there", "emptyDir": {}});
    let volumes = unique(list(odd_of("volumes")), "name").prop_map(move |mut volumes| {
        volumes.as_array_mut().unwrap().push(there.clone());
        volumes
    });
    let fields: Vec<(&str, Drawn)> = vec![
        ("volumes", volumes.boxed()),
        ("initContainers", containers().prop_map(Value::from).boxed()),
        ("hostAliases", list(odd_of("host-aliases"))),
        ("tolerations", list(odd_of("tolerations"))),
        ("nodeSelector", btree_map(select(&["a", "c"][..]), name(), 0..3).prop_map(|map| json!(map)).boxed()),
        ("dnsPolicy", Just(json!("ClusterFirst")).boxed()),
        ("dnsConfig", odd_of("dns-config")),
        ("affinity", odd_of("affinity")),
        ("securityContext", odd_of("security-context")),
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
