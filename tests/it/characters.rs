//! Proves that strings with special characters reach the pod templates unchanged, and that templates and annotations that
//! are too large are refused. `apiserver/characters.rs` sends these strings through a real `spark-submit`, and
//! `node/characters.rs` to real processes.

use crate::{prelude::*, validation::examined_by};
use submission::{Settings, spark_submit};
use validation::Invalid;

/// The executors' template reaches Spark as a string inside YAML, so a character that YAML refuses or changes would not
/// arrive.
#[test]
fn templates_have_no_character_that_yaml_refuses_or_changes() {
    let mut hard = json!({"metadata": {"name": "hard"}, "spec": {}});
    let variable = |(i, text)| json!({"name": format!("HARD_{i}"), "value": text});
    let env: Value = (0..).zip(hard_to_carry()).map(variable).collect();
    for role in Role::ALL {
        hard["spec"][role.as_str()] = json!({"env": env, "template": {"spec": {"volumes": env}}});
    }
    let application: SparkApplication = serde_json::from_value(hard).unwrap();
    let settings = Settings::new("k8s://https://kubernetes");
    let files = spark_submit(&validate(&application).unwrap(), &Run::next(&application), &settings, "")
        .unwrap()
        .files;
    for role in Role::ALL {
        let text = &files[format!("{}-pod-template.yaml", role.as_str()).as_str()];
        // The printable characters of YAML 1.2, section 5.1, without the line breaks that YAML folds.
        let literal = |c| {
            matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
                && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
        };
        assert_eq!(text.chars().find(|c| !literal(*c)), None, "{role:?}");
        let template: Value = serde_json::from_str(text).unwrap();
        assert_eq!(template["spec"]["volumes"], env, "{role:?}");
        for (key, value) in pod_customization::annotations(&application, role) {
            assert_eq!(template["metadata"]["annotations"][&key], value, "{role:?}: {key}");
        }
    }
}

#[test]
fn a_template_that_no_config_map_can_hold_is_refused_with_its_size() {
    // Each of these characters has one byte in a spec, and six bytes in the template.
    let argument = |length| "\u{7f}".repeat(length / 6) + &"x".repeat(length % 6);
    let container = |length| json!({"name": "spark-kubernetes-executor", "args": [argument(length)]});
    let of = |length| {
        let template = json!({"spec": {"containers": [container(length)]}});
        let mut spec = json!({"driver": {"template": template}, "executor": {"template": template}});
        spec["mainClass"] = "a.B".into();
        spec["mainApplicationFile"] = "local:///app.jar".into();
        examined_by(&json!({"metadata": {"name": "pi"}, "spec": spec}), None).invalid
    };
    let around =
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container(0)]}}).to_string();
    let largest = (1 << 20) - around.len();
    assert_eq!(of(largest), []);
    let [Invalid { field, why }] = &of(largest + 1)[..] else { panic!("{:?}", of(largest + 1)) };
    assert_eq!(field, "spec.executor");
    assert_eq!(
        why,
        "makes a pod template of 1048577 bytes, and the ConfigMap in which Spark hands it to the driver can have \
         1048576: move large values into ConfigMaps of your own"
    );
}

#[test]
fn annotations_are_accepted_up_to_kubernetes_limit_and_refused_beyond() {
    let of = |application: &Value| examined_by(application, None).invalid;
    let uid = "00000000-0000-0000-0000-000000000000";
    let spec =
        json!({"mainClass": "a.B", "mainApplicationFile": "local:///app.jar", "driver": {}, "executor": {}});
    let mut full = json!({"metadata": {"name": "full", "uid": uid}, "spec": spec});
    // Escaping makes these characters grow most: the first in annotations, the second in the pod template that Spark
    // gives to the driver.
    for (role, filler) in [(Role::Driver, "\u{1}"), (Role::Executor, "\u{80}")] {
        fill(&mut full, role, filler);
    }
    assert_eq!(of(&full), []);
    for role in Role::ALL {
        full["spec"][role.as_str()]["env"][0]["name"] = json!("FULL_0_");
    }
    let why = format!(
        "makes {} bytes of annotations, most of it `sparkoperator.k8s.io/env`, and Kubernetes allows {LARGEST}: move large \
         values into ConfigMaps",
        LARGEST + 1
    );
    let refused = of(&full).into_iter().map(|Invalid { field, why }| (field, why));
    let expected = Role::ALL.map(|role| (format!("spec.{}", role.as_str()), why.clone()));
    assert_eq!(refused.collect::<Vec<_>>(), expected);
}

/// Maximum total size of all annotations of an object in Kubernetes, keys and values, in bytes.
pub(crate) const LARGEST: usize = 256 << 10;

/// Returns strings that have a special meaning somewhere on the way from an application to a process: in YAML, JSON,
/// Java's properties, Spark's and Kubernetes' own substitutions, shells, Go's templates or HTML. Only NUL is missing,
/// because no argument of a process can contain NUL.
pub(crate) fn hard_to_carry() -> Vec<String> {
    let words: BTreeMap<String, Vec<String>> =
        serde_json::from_str(&fs::read_to_string(data("characters.json")).unwrap()).unwrap();
    let words: Vec<_> = words.values().flatten().map(String::as_str).collect();
    let controls = ('\u{1}'..'\u{20}').chain('\u{7f}'..='\u{a0}');
    let alone = controls.clone().map(String::from);
    let together = [controls.collect(), (' '..='~').collect::<String>(), words.join("")];
    let each = words.iter().map(|word| (*word).to_owned());
    each.chain(alone).chain(together).chain(joined(&words, 100)).collect()
}

/// Returns `count` texts, each of several random `words`. The texts are the same in every run.
fn joined(words: &[&str], count: usize) -> impl Iterator<Item = String> {
    // xorshift64
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = move |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % end
    };
    (0..count).map(move |_| (0..2 + below(5)).map(|_| words[below(words.len())]).collect())
}

/// Adds environment variables made of `filler` until the annotations by which the webhook customizes pods of `role` have
/// [`LARGEST`] bytes. The bytes are spread over several variables, because one variable with all of them would be too
/// long for a process.
pub(crate) fn fill(application: &mut Value, role: Role, filler: &str) {
    const VARIABLES: usize = 5;
    let section = role.as_str();
    let env = &mut application["spec"][section]["env"];
    if env.is_null() {
        *env = json!([]);
    }
    let env = env.as_array_mut().unwrap();
    let first = env.len();
    env.extend((0..VARIABLES).map(|i| json!({"name": format!("FULL_{i}"), "value": ""})));
    let room = LARGEST - annotated(application, role);
    let in_json = json!(filler).to_string().len() - 2;
    for i in 0..VARIABLES {
        let part = room / VARIABLES + if i == 0 { room % VARIABLES } else { 0 };
        let value = filler.repeat(part / in_json) + &"x".repeat(part % in_json);
        application["spec"][section]["env"][first + i]["value"] = value.into();
    }
    assert_eq!(annotated(application, role), LARGEST);
}

/// Returns the number of bytes of the annotations by which the webhook customizes a pod of `role`.
fn annotated(application: &Value, role: Role) -> usize {
    let mut application: SparkApplication = serde_json::from_value(application.clone()).unwrap();
    // The annotations contain the uid of the application, and every uid has this length.
    application.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    pod_customization::annotations(&application, role)
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum()
}
