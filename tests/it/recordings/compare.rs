//! Compares the planned objects with the recorded ones. They must be equal, except for the order of entries that Spark
//! takes from a hash map or shuffles, and for owner references, which the caller adds.

use super::{
    case::{Case, Exchange},
    rules,
};
use crate::prelude::*;
use spark_client::{Objects, Submission};

/// The part of the name of a PersistentVolumeClaim of a driver that precedes the number of its volume.
const CLAIM: &str = "-driver-pvc-";

/// Returns the first difference, if there is one.
pub fn difference(case: &Case, submission: &Submission, objects: &Objects) -> Option<String> {
    let sent = case.sent();
    let mut made: Vec<_> = [&objects.pod].into_iter().chain(&objects.children).cloned().collect();
    let mut recorded: Vec<_> = sent.iter().map(|exchange| exchange.body.clone()).collect();
    for object in recorded.iter_mut().skip(1) {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
        }
    }
    for objects in [&mut made, &mut recorded] {
        normalize(objects, submission);
    }
    // A `spark-submit` that failed on the way has created only some of the objects.
    let is_whole = case.injected_failures.is_empty() || case.exit_code == 0;
    if made.len() < recorded.len() || (is_whole && made.len() > recorded.len()) {
        return Some(format!("{} objects were made, {} recorded", made.len(), recorded.len()));
    }
    made.iter().zip(&recorded).zip(sent).find_map(|((made, recorded), exchange)| {
        path_difference(made, exchange).or_else(|| {
            let (place, made, recorded) = first_difference("", made, recorded)?;
            Some(format!("{}{place}: made {made}, recorded {recorded}", recorded_kind(exchange)))
        })
    })
}

fn recorded_kind(exchange: &Exchange) -> &str {
    exchange.body["kind"].as_str().unwrap_or_default()
}

/// Checks that the object would be written to the recorded path; returns the difference, if there is one.
fn path_difference(made: &Value, exchange: &Exchange) -> Option<String> {
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let group = match made["apiVersion"].as_str().unwrap_or_default() {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    let is_there = exchange.path.starts_with(&group)
        && (exchange.method == "POST"
            || exchange.path.rsplit('/').next().is_some_and(|last| last == name || last.contains(CLAIM)));
    (!is_there).then(|| format!("{name} does not belong to {}", exchange.path))
}

fn normalize(objects: &mut [Value], submission: &Submission) {
    let behind = |prefix: &str| -> BTreeSet<String> {
        let keys = submission.properties.keys().filter_map(|key| key.strip_prefix(prefix));
        keys.map(str::to_owned).collect()
    };
    let volumes = behind("spark.kubernetes.driver.volumes.");
    let volumes: BTreeSet<_> =
        volumes.iter().filter_map(|key| key.split('.').nth(1)).map(str::to_owned).collect();
    let secrets: BTreeSet<_> =
        behind("spark.kubernetes.driver.secrets.").iter().map(|name| format!("{name}-volume")).collect();

    let claims = claim_names(&objects[0]);
    for object in objects.iter_mut() {
        rename(object, &claims);
        if let Some(text) = object["data"]["spark.properties"].as_str() {
            object["data"]["spark.properties"] = lines(text);
        }
    }
    objects[1..].sort_by_key(|object| {
        let is_claim = object["kind"] == "PersistentVolumeClaim";
        // The rank puts claims after the Service and its NetworkPolicy. Within a rank only the claims are sorted, by
        // name.
        let rank = match object["kind"].as_str().unwrap_or_default() {
            "Secret"
                if object["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.ends_with("-kubernetes-credentials")) =>
            {
                0
            }
            "Service" => 1,
            "NetworkPolicy" => 2,
            "PersistentVolumeClaim" => 3,
            _ => 4,
        };
        (rank, if is_claim { object["metadata"]["name"].to_string() } else { String::new() })
    });

    let pod = &mut objects[0];
    let spec = &mut pod["spec"];
    for group in [&volumes, &secrets] {
        sort_runs(&mut spec["volumes"], |volume| is_in(volume, group));
    }
    for volume in spec["volumes"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter(|volume| volume["name"] == "hadoop-properties")
    {
        sort_runs(&mut volume["configMap"]["items"], |_| true);
    }
    let environment = behind("spark.kubernetes.driverEnv.");
    let references = behind("spark.kubernetes.driver.secretKeyRef.");
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        for group in [&volumes, &secrets] {
            sort_runs(&mut container["volumeMounts"], |mount| is_in(mount, group));
        }
        sort_runs(&mut container["env"], |variable| {
            is_in(variable, &environment) && variable["value"].is_string()
        });
        sort_runs(&mut container["env"], |variable| {
            is_in(variable, &references) && variable["value"].is_null()
        });
        sort_directories(container);
    }
}

fn is_in(entry: &Value, names: &BTreeSet<String>) -> bool {
    entry["name"].as_str().is_some_and(|name| names.contains(name))
}

/// Sorts the entries that belong to a group, separately in each run of adjacent entries.
fn sort_runs(list: &mut Value, belongs: impl Fn(&Value) -> bool) {
    let Some(list) = list.as_array_mut() else { return };
    for run in list.chunk_by_mut(|one, next| belongs(one) && belongs(next)) {
        run.sort_by_key(Value::to_string);
    }
}

/// Some versions of Spark shuffle scratch directories.
fn sort_directories(container: &mut Value) {
    let variables = container["env"].as_array_mut().into_iter().flatten();
    for variable in variables.filter(|variable| variable["name"] == "SPARK_LOCAL_DIRS") {
        let mut directories: Vec<_> = variable["value"].as_str().unwrap_or_default().split(',').collect();
        directories.sort_unstable();
        variable["value"] = directories.join(",").into();
    }
    let mounts = container["volumeMounts"].as_array_mut().into_iter().flatten();
    let is_own = |mount: &&mut Value| {
        mount["name"].as_str().is_some_and(|name| name.starts_with("spark-local-dir-"))
            && mount["readOnly"].is_null()
    };
    let mounts: Vec<_> = mounts.filter(is_own).collect();
    let mut paths: Vec<_> = mounts.iter().map(|mount| mount["mountPath"].clone()).collect();
    paths.sort_by_key(Value::to_string);
    for (mount, path) in mounts.into_iter().zip(paths) {
        mount["mountPath"] = path;
    }
}

/// Returns new names for claims. The number in a claim's name is the position of its volume in Spark's order, which may
/// differ: the new name contains the name of the volume instead.
fn claim_names(pod: &Value) -> BTreeMap<String, String> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str()?;
        let (_, number) = claim.split_once(CLAIM)?;
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let numbered = format!("{CLAIM}{}", &number[..digits]);
        let name = claim.replace(&numbered, &format!("{CLAIM}{}", volume["name"].as_str()?));
        Some((claim.to_owned(), name))
    });
    claims.collect()
}

fn rename(object: &mut Value, claims: &BTreeMap<String, String>) {
    let renamed = |value: &mut Value| {
        if let Some(name) = value.as_str().and_then(|name| claims.get(name)) {
            *value = name.as_str().into();
        }
    };
    if object["kind"] == "PersistentVolumeClaim" {
        renamed(&mut object["metadata"]["name"]);
    }
    for volume in object["spec"]["volumes"].as_array_mut().into_iter().flatten() {
        if !volume["persistentVolumeClaim"].is_null() {
            renamed(&mut volume["persistentVolumeClaim"]["claimName"]);
        }
    }
}

/// Returns the lines of a properties file, sorted. The lines stay text, so that escapes are compared as well. The date
/// comment is replaced by a constant: the best known time of a recording is the property `spark.app.submitTime`.
fn lines(text: &str) -> Value {
    let mut lines: Vec<_> = text.trim_end_matches('\n').split('\n').collect();
    if let Some(date) = lines.get_mut(1) {
        let words = date.split(' ').count();
        *date = if date.starts_with('#') && words == 6 { "#date" } else { date };
    }
    // A submission with these properties is not native. The lines are removed, so that all other properties are
    // compared.
    lines.retain(|line| !rules::says_who_submits(line));
    lines.sort_unstable();
    json!(lines)
}

/// Returns the path at which two values differ first, and both values at this path.
fn first_difference<'a>(
    place: &str,
    made: &'a Value,
    recorded: &'a Value,
) -> Option<(String, &'a Value, &'a Value)> {
    match (made, recorded) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            let absent = &Value::Null;
            keys.into_iter().find_map(|key| {
                let (one, other) = (one.get(key), other.get(key));
                if one.is_some() != other.is_some() {
                    return Some((format!("{place}.{key}"), one.unwrap_or(absent), other.unwrap_or(absent)));
                }
                first_difference(&format!("{place}.{key}"), one?, other?)
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(i, (one, other))| first_difference(&format!("{place}[{i}]"), one, other))
        }
        _ => (made != recorded).then(|| (place.to_owned(), made, recorded)),
    }
}
