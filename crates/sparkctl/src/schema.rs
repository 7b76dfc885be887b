//! Checks an object against the definition of its kind (CRD), as the API server does, but offline.

use super::crds;
use api::{ScheduledSparkApplication, SparkApplication, SparkConnect};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use validation::Invalid;

/// The mistakes in the fields of an object, in the order of its fields.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Fields that are not of their type, and required ones that are missing.
    pub wrong: Vec<Invalid>,
    /// Fields that do not exist.
    pub unknown: Vec<Invalid>,
}

/// Returns the mistakes in the fields of an object; no mistakes if its kind is not one of the operator's.
pub(super) fn faults(object: &Value) -> Faults {
    let mut faults = Faults::default();
    let Some(schema) = object["kind"].as_str().and_then(schema_of) else { return faults };
    // Besides the metadata, only the spec is checked further: users do not write the status.
    let is_unknown = |name: &&String| {
        !["apiVersion", "kind", "metadata"].contains(&name.as_str()) && schema["properties"][name].is_null()
    };
    let names = object.as_object().into_iter().flat_map(|object| object.keys());
    faults.unknown.extend(names.filter(is_unknown).map(|name| no_field(schema, "", name)));
    look(schema, &METADATA, &object["metadata"], "metadata", &mut faults);
    match &object["spec"] {
        Value::Null => faults.wrong.push(fault("spec", MISSING)),
        spec => look(schema, &schema["properties"]["spec"], spec, "spec", &mut faults),
    }
    faults
}

/// Returns the schema of one of the operator's kinds. It is built only when it is needed: most manifests need one
/// schema, and building it takes longer than all the rest of a command.
fn schema_of(kind: &str) -> Option<&'static Value> {
    static APPLICATION: LazyLock<Value> = LazyLock::new(crds::schema::<SparkApplication>);
    static SCHEDULE: LazyLock<Value> = LazyLock::new(crds::schema::<ScheduledSparkApplication>);
    static CONNECT: LazyLock<Value> = LazyLock::new(crds::schema::<SparkConnect>);
    match kind {
        "SparkApplication" => Some(&APPLICATION),
        "ScheduledSparkApplication" => Some(&SCHEDULE),
        "SparkConnect" => Some(&CONNECT),
        _ => None,
    }
}

/// The schema of those fields of metadata that users write.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let (text, map) =
        (json!({"type": "string"}), json!({"type": "object", "additionalProperties": {"type": "string"}}));
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"name": text, "namespace": text, "labels": map, "annotations": map},
    })
});

const MISSING: &str = "is missing";
/// Fields of other Kubernetes objects or other tools that users write by mistake: the end of the path of the object
/// that contains the field, the name of the field, and what to write instead.
const ELSEWHERE: [(&str, &str, &str); 16] = [
    (".volumeMounts", "path", "write mountPath"),
    ("spec.template", "spec", "move its fields into spec.template"),
    ("", "pyPackages", "put Python packages into the image, or an environment into deps.archives"),
    ("", "resources", "write coreRequest, coreLimit, memory and memoryOverhead, which set them"),
    ("", "args", "write the arguments of the program into spec.arguments"),
    (".driver", "cpu", "write cores, coreRequest or coreLimit"),
    (".executor", "cpu", "write cores, coreRequest or coreLimit"),
    ("", "environment", "write env, a list of name and value"),
    ("", "extraJavaOptions", "write javaOptions"),
    ("", "javaOpts", "write javaOptions"),
    ("spec", "serviceAccountName", "write serviceAccount in driver or executor"),
    (".deps", "excludes", "write excludePackages"),
    (".executor", "minExecutors", "write it in dynamicAllocation"),
    (".executor", "maxExecutors", "write it in dynamicAllocation"),
    (".volumes", "pvc", "write persistentVolumeClaim"),
    ("", "jarsDownloadDir", "take it out, Spark downloads jars to where it finds them"),
];
/// The minimum similarity, from 0 to 1, of the name of a field that is suggested (Jaro and Winkler).
const SIMILAR: f64 = 0.9;

fn fault(field: &str, why: impl Into<String>) -> Invalid {
    Invalid { field: field.to_owned(), why: why.into() }
}

/// Returns the mistake that `name` is no field of the object at `parent`; `root` is the schema of the whole object.
fn no_field(root: &Value, parent: &str, name: &str) -> Invalid {
    let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
    let list = parent.rsplit_once('[').map_or(parent, |(list, _)| list);
    let place = if parent.ends_with(']') { list } else { parent };
    let elsewhere = ELSEWHERE.iter().find(|(end, field, _)| place.ends_with(end) && *field == name);
    let meant = match (elsewhere, nearest(root, parent, name)) {
        (Some((_, _, what)), _) => (*what).to_owned(),
        (None, meant) if meant.is_empty() => "correct it, or leave it out".to_owned(),
        (None, meant) => format!("did you mean {}?", meant.join(" or ")),
    };
    fault(&path, format!("there is no such field: {meant}"))
}

/// Returns the paths of the fields to suggest for `name`: a field with a similar name in the same object, or fields
/// with the same name in other parts of the spec.
fn nearest(root: &Value, parent: &str, name: &str) -> Vec<String> {
    let fields = |path: &str| {
        let names = path
            .split('.')
            .filter(|name| !name.is_empty())
            .map(|name| name.split('[').next().unwrap_or(name));
        let schema = names.clone().try_fold(root, |schema, name| {
            let inside = &schema["properties"][name];
            Some(if inside["items"].is_object() { &inside["items"] } else { inside })
        });
        schema.and_then(|schema| schema["properties"].as_object()).into_iter().flat_map(Map::keys)
    };
    let at =
        |path: &str, field: &str| if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
    // Some fields exist only in the security context of the pod, others only in that of a container.
    for (one, other) in
        [(".securityContext", ".podSecurityContext"), (".podSecurityContext", ".securityContext")]
    {
        if let Some(place) = parent.strip_suffix(one).map(|place| format!("{place}{other}"))
            && fields(&place).any(|field| field == name)
        {
            return vec![at(&place, name)];
        }
    }
    let lower = name.to_lowercase();
    let likeness = |field: &String| {
        let field = field.to_lowercase();
        let is_part = lower.len() > 3 && field.contains(&lower);
        strsim::jaro_winkler(&field, &lower).max(if is_part { SIMILAR } else { 0.0 })
    };
    let similar = fields(parent).filter(|field| likeness(field) >= SIMILAR);
    let best = similar.max_by(|a, b| likeness(a).total_cmp(&likeness(b)).then(b.len().cmp(&a.len())));
    let spec = if parent.starts_with("spec.template")
        && !root["properties"]["spec"]["properties"]["schedule"].is_null()
    {
        "spec.template"
    } else {
        "spec"
    };
    let places = ["", ".driver", ".executor", ".server", ".deps", ".restartPolicy"]
        .map(|place| format!("{spec}{place}"));
    let is_there = |place: &&String| fields(place).any(|field| field.to_lowercase() == lower);
    let there: Vec<_> = places.iter().filter(is_there).map(|place| at(place, name)).collect();
    match best {
        // The same name in another part of the spec is more likely than a similar name in this object.
        Some(field) if there.is_empty() || field.to_lowercase().ends_with(&lower) => vec![at(parent, field)],
        _ => there,
    }
}

/// Checks `value` and everything in it against a structural schema, as the API server does:
/// <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>.
fn look(root: &Value, schema: &Value, value: &Value, path: &str, faults: &mut Faults) {
    if let Some(why) = mismatch(schema, value, path) {
        faults.wrong.push(fault(path, why));
        return;
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        look(root, &schema["items"], item, &format!("{path}[{i}]"), faults);
    }
    let Some(fields) = value.as_object() else { return };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| fields.get(*name).is_none_or(Value::is_null)) {
        faults.wrong.push(fault(&format!("{path}.{name}"), MISSING));
    }
    let additional = &schema["additionalProperties"];
    let keeps_all = schema["x-kubernetes-preserve-unknown-fields"] == true || *additional == true;
    for (name, value) in fields {
        match [&schema["properties"][name], additional].into_iter().find(|schema| schema.is_object()) {
            Some(schema) => look(root, schema, value, &format!("{path}.{name}"), faults),
            None if keeps_all => {}
            None => faults.unknown.push(no_field(root, path, name)),
        }
    }
}

/// Returns why `value` does not match `schema`. The fields and entries in `value` are not checked here.
fn mismatch(schema: &Value, value: &Value, path: &str) -> Option<String> {
    // A field that is null counts as absent.
    if value.is_null() {
        return None;
    }
    let is_of_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    };
    if !is_of_type {
        let wanted = schema["type"].as_str().unwrap_or_default();
        // A string that looks like a boolean or a number is shown in quotes.
        let is_quoted =
            value.as_str().is_some_and(|text| text.parse::<bool>().is_ok() || text.parse::<i64>().is_ok());
        let shown = if is_quoted { value.to_string() } else { shown(value) };
        return Some(format!("`{shown}` is not of type {wanted}{}", hint(wanted, value, path)));
    }
    let choices: Vec<_> = schema["enum"].as_array().into_iter().flatten().collect();
    if !choices.is_empty() && !choices.contains(&value) {
        let choices: Vec<_> = choices.into_iter().map(|choice| format!("`{}`", shown(choice))).collect();
        return Some(format!("`{}` is not known: write one of {}", shown(value), choices.join(", ")));
    }
    let sizes = [
        ("maxItems", value.as_array().map(Vec::len), "entries"),
        ("maxProperties", value.as_object().map(Map::len), "entries"),
        ("maxLength", value.as_str().map(|text| text.chars().count()), "characters"),
    ];
    for (limit, size, what) in sizes {
        if let (Some(size), Some(most)) = (size, schema[limit].as_u64())
            && u64::try_from(size).is_ok_and(|size| size > most)
        {
            return Some(format!("has {size} {what}: at most {most} are possible"));
        }
    }
    let number = value.as_f64()?;
    let bound = |name: &str| schema[name].as_f64();
    if let Some(least) = bound("minimum").filter(|least| number < *least) {
        return Some(format!("{value} is too small: it is {least} at least"));
    }
    let most = bound("maximum").filter(|most| number > *most)?;
    Some(format!("{value} is too large: it is {most} at most"))
}

/// Returns what to write instead of a value of another type than `wanted`.
fn hint(wanted: &str, value: &Value, path: &str) -> String {
    match (wanted, value) {
        ("string", Value::Object(fields)) => match fields.get("name").and_then(Value::as_str) {
            Some(name) if fields.len() == 1 => format!(": write the name alone, `{name}`"),
            _ => match (path.split_once(".envVars."), path.rsplit_once("Conf.")) {
                (Some((role, name)), _) => {
                    format!(": write it as an entry of {role}.env with the name {name}")
                }
                (None, Some((_, key))) => {
                    let inner = fields.keys().next().map_or("", String::as_str);
                    format!(": write its keys whole, such as `{key}.{inner}`")
                }
                (None, None) => String::new(),
            },
        },
        ("object", Value::String(text)) if path.ends_with(".restartPolicy") => {
            format!(": write `type: {text}` below it")
        }
        ("string", Value::Array(_)) => String::new(),
        ("string", Value::Number(number))
            if number.is_u64() && ["emory", "emoryOverhead"].iter().any(|end| path.ends_with(end)) =>
        {
            format!(": write it with its unit, such as `{number}m`")
        }
        ("string", _) => ": write it in quotes".to_owned(),
        ("boolean", Value::String(text)) if text.parse::<bool>().is_ok() => {
            format!(": write {text} without quotes")
        }
        ("integer", Value::String(text)) if text.parse::<i64>().is_ok() => {
            format!(": write {text} without quotes")
        }
        ("array", Value::String(text)) => format!(": write `- {text}` in a line of its own"),
        ("integer", Value::Number(number)) if path.ends_with(".cores") => {
            let cores = number.as_f64().unwrap_or_default();
            format!(
                ": write {:.0}, and {}oreRequest: {:.0}m for a part of a core",
                cores.ceil().max(1.0),
                &path[..path.len() - "ores".len()],
                cores * 1000.0
            )
        }
        _ => String::new(),
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `template` is the spec of an application with mistakes; `wrong` and `unknown` are their messages, with `{}` for
    /// the path of the spec. `spec` has misnamed fields; `meant` are the messages with suggestions.
    #[derive(serde::Deserialize)]
    struct Cases {
        template: Value,
        wrong: Vec<String>,
        unknown: Vec<String>,
        spec: Value,
        meant: Vec<String>,
    }

    fn cases() -> Cases {
        serde_json::from_str(include_str!("../../../tests/data/ctl/schema.json")).unwrap()
    }

    fn told(object: &Value) -> Vec<String> {
        let Faults { wrong, unknown } = faults(object);
        wrong.iter().chain(&unknown).map(ToString::to_string).collect()
    }

    #[test]
    fn unknown_mistyped_and_missing_fields_are_mistakes() {
        let Cases { template, wrong, unknown, .. } = cases();
        let all = || wrong.iter().chain(&unknown);
        let at = |place: &str| -> Vec<_> {
            all().map(|fault| format!("{place}.{}", fault.replace("{}", place))).collect()
        };
        let mut application = json!({"apiVersion": "x", "kind": "SparkApplication", "metadata": {}, "spec": template, "status": {}});
        assert_eq!(told(&application), at("spec"));
        application["sepc"] = json!({});
        assert_eq!(told(&application)[wrong.len()], "sepc: there is no such field: did you mean spec?");
        application["spec"].take();
        assert_eq!(told(&application)[0], "spec: is missing");
        let schedule = json!({"kind": "ScheduledSparkApplication", "spec": {"schedule": "@daily", "template": template}});
        let labelled = json!({"kind": "SparkApplication", "metadata": {"name": 1, "labels": {"a": true}, "uid": "u"}, "spec": {}});
        assert_eq!(
            told(&labelled)[..2],
            [
                "metadata.labels.a: `true` is not of type string: write it in quotes",
                "metadata.name: `1` is not of type string: write it in quotes",
            ]
        );
        assert_eq!(told(&schedule), at("spec.template"));
        assert!(told(&json!({"kind": "Pod", "spec": {"any": 1}})).is_empty());
    }

    #[test]
    fn the_field_that_is_meant_is_suggested() {
        let Cases { spec, meant, .. } = cases();
        let found = told(&json!({"kind": "SparkApplication", "spec": spec}));
        for expected in &meant {
            assert!(found.iter().any(|fault| fault == expected), "no `{expected}` in {found:#?}");
        }
        assert!(found.iter().any(|fault| {
            fault.ends_with(": write it as an entry of spec.driver.env with the name NAMESPACE")
        }));
    }

    #[test]
    fn lists_and_strings_have_the_limits_of_the_definition() {
        let port = json!({"servicePort": 1, "servicePortName": "a"});
        let spec = json!({
            "type": "Scala", "sparkVersion": "4.0.1", "mainApplicationFile": "x".repeat(300_000), "driver": {}, "executor": {},
            "driverIngressOptions": vec![port; 101], "arguments": vec!["a"; 10_001],
        });
        assert_eq!(
            told(&json!({"kind": "SparkApplication", "metadata": {}, "spec": spec})),
            [
                "spec.arguments: has 10001 entries: at most 10000 are possible",
                "spec.driverIngressOptions: has 101 entries: at most 100 are possible",
                "spec.mainApplicationFile: has 300000 characters: at most 262144 are possible",
            ]
        );
    }
}
