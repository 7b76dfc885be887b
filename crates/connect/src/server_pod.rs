//! Builds the pod of a server, and the hash of the spec that it is created from.

use crate::{
    CONNECT_PORT, Policy,
    names::{self, TEMPLATE_FILE, TEMPLATE_KEY},
    objects::server_labels,
    options::options,
};
use api::{
    Role, SparkConnect, SparkConnectSpec,
    names::{annotation, conf, env, label, volume},
    owner_reference, stated,
};
use serde_json::{Value, json};
use spark_client::{Conf, Line, set_resources};
use submission::{digest::sha256_hex, pod_templates::sparks_container};

/// The version of the algorithm of [`server_hash`]. Hashes of different versions cannot be compared.
const VERSION: &str = "v1";

/// The shell script that starts the server in its container. The options are arguments of the script and never part of
/// its text.
///
/// `start-connect-server.sh` itself would start Spark as its child, in a shell that forwards no signal, so that
/// sessions would end by SIGKILL. This script replaces itself (`exec`) with what that script starts. Kubernetes expands
/// `$(…)` and `$$` in a command; the script contains neither.
const START: &str = r#"home="${SPARK_HOME:-/opt/spark}"
if [ ! -f "$home/sbin/start-connect-server.sh" ]; then
  echo "the image has no $home/sbin/start-connect-server.sh: Spark Connect needs an image of Spark 3.4 or later, with SPARK_HOME where Spark is" >&2
  exit 1
fi
case "$POD_IP" in *:*) host="[$POD_IP]" ;; *) host="$POD_IP" ;; esac
exec "$home/bin/spark-submit" --class org.apache.spark.sql.connect.service.SparkConnectServer --name "Spark Connect server" "$@" --conf spark.driver.host="$host""#;

/// Returns the hash of the fields of a spec that need a new server when they change. An edit of the other fields leaves
/// the hash as it is.
pub fn server_hash(spec: &SparkConnectSpec) -> String {
    let mut spec = spec.clone();
    (spec.suspend, spec.ttl_seconds_after_idle, spec.sleep_after_idle_seconds) = (false, None, None);
    (spec.server.service, spec.server.access) = (None, None);
    let mut document = serde_json::to_value(&spec).expect("a spec is JSON");
    document.sort_all_objects();
    format!("{VERSION}:{}", sha256_hex(document.to_string().as_bytes()))
}

/// Returns the pod of the server. The spec must be valid: the code relies on objects in the template where Kubernetes
/// has objects.
pub fn server_pod(connect: &SparkConnect, policy: &Policy) -> Value {
    let spec = &connect.spec;
    let template = spec.server.template.as_ref().map_or(Value::Null, |template| template.json().clone());
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names::server(connect),
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [owner_reference(connect)],
        },
        "spec": template["spec"],
    });
    for (key, value) in server_labels(connect) {
        pod["metadata"]["labels"][key] = value.into();
    }
    pod["metadata"]["labels"][label::SPARK_VERSION] = spec.spark_version.as_str().into();
    pod["metadata"]["annotations"][annotation::SERVER_HASH] = server_hash(spec).into();

    let of_pod = &mut pod["spec"];
    // A server that ended is replaced by a new pod. If its container were restarted, the new executors would have the
    // names of those that are still there.
    of_pod["restartPolicy"] = "Never".into();
    let is_missing = |field: &str| of_pod[field].as_str().is_none_or(str::is_empty);
    let has_account = !is_missing("serviceAccountName") || !is_missing("serviceAccount");
    let default = stated(&policy.default_service_account).filter(|_| !has_account);
    if let Some(account) = stated(&spec.server.service_account).or(default) {
        of_pod["serviceAccountName"] = account.as_str().into();
        // The deprecated name of the field. Kubernetes requires both to be equal.
        of_pod.as_object_mut().and_then(|fields| fields.remove("serviceAccount"));
    }
    let source =
        json!({"name": names::config_map(connect), "items": [{"key": TEMPLATE_KEY, "path": TEMPLATE_KEY}]});
    push(&mut of_pod["volumes"], json!({"name": volume::CONNECT_CONF, "configMap": source}));
    let containers = &mut of_pod["containers"];
    let sparks = sparks_container(containers, Role::Driver);
    fill(&mut containers[sparks], connect, policy);
    pod
}

/// Adds image, command, probes, variables, mount and resources to the template's container.
fn fill(container: &mut Value, connect: &SparkConnect, policy: &Policy) {
    let spec = &connect.spec;
    if let Some(image) = stated(&spec.image)
        && container["image"].as_str().is_none_or(str::is_empty)
    {
        container["image"] = image.as_str().into();
    }
    container["command"] = json!(["bash", "-c", START, "start-connect-server"]);
    // Kubernetes turns `$$` into `$`, and then expands nothing after it.
    let arguments: Vec<_> = options(connect, policy).iter().map(|option| option.replace('$', "$$")).collect();
    container["args"] = arguments.into();
    let ready = json!({
        "tcpSocket": {"port": CONNECT_PORT}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3,
    });
    let mut started = ready.clone();
    (started["initialDelaySeconds"], started["failureThreshold"]) = (5.into(), 30.into());
    for (field, default) in [
        ("startupProbe", started),
        ("readinessProbe", ready),
        // If the server fails, the end of its log becomes the termination message.
        ("terminationMessagePolicy", "FallbackToLogsOnError".into()),
    ] {
        if container[field].is_null() {
            container[field] = default;
        }
    }
    let address = json!({"fieldRef": {"fieldPath": "status.podIP"}});
    let token = spec.server.token.as_ref();
    let token = token.map(|token| json!({"secretKeyRef": {"name": token.name, "key": token.key}}));
    let variables = [(env::POD_IP, Some(address)), (env::SPARK_CONNECT_AUTHENTICATE_TOKEN, token)];
    for (name, source) in variables.into_iter().filter_map(|(name, source)| Some((name, source?))) {
        if let Some(list) = container["env"].as_array_mut() {
            list.retain(|variable| variable["name"] != name);
        }
        push(&mut container["env"], json!({"name": name, "valueFrom": source}));
    }
    let mount = json!({
        "name": volume::CONNECT_CONF, "mountPath": TEMPLATE_FILE, "subPath": TEMPLATE_KEY, "readOnly": true,
    });
    push(&mut container["volumeMounts"], mount);
    add_resources(container, connect);
}

/// Adds the requests and limits for CPU and memory that Spark would give a driver with these cores and this memory. A
/// resource for which the container has a request or limit is left as it is. Adds nothing if a size can only be read by
/// Spark.
fn add_resources(container: &mut Value, connect: &SparkConnect) {
    let spec = &connect.spec;
    let mut properties = spec.spark_conf.clone();
    let cores = spec.server.cores.map(|cores| cores.to_string());
    let memory = stated(&spec.server.memory).cloned();
    for (key, value) in [(conf::CORES, cores), (conf::MEMORY, memory)] {
        properties.extend(value.map(|value| (conf::spark(Role::Driver, key), value)));
    }
    let mut driver = json!({});
    let conf = Conf(properties, Line::nearest(&spec.spark_version).0);
    if set_resources(&conf, "server.jar", Role::Driver, &mut driver).is_err() {
        return;
    }
    for resource in ["cpu", "memory"] {
        let lists = ["requests", "limits"];
        if lists.iter().any(|list| !container["resources"][*list][resource].is_null()) {
            continue;
        }
        for list in lists {
            let amount = &driver["resources"][list][resource];
            if !amount.is_null() {
                container["resources"][list][resource] = amount.clone();
            }
        }
    }
}

/// Adds an entry to a list, which may be missing.
fn push(list: &mut Value, entry: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(entry),
        None => *list = json!([entry]),
    }
}
