//! Checks whether a server can run with the spec that the user wrote. Fields that a server shares with an application
//! are checked by the application's checks. The webhook, the controller and `sparkctl` call this module, so they refuse
//! the same specs with the same messages.

use crate::{
    CONNECT_PORT, LEAST_IDLE_SECONDS, Policy, UI_PORT, application::as_application, names, objects,
    options::image, server_pod::server_pod,
};
use api::{
    LONGEST_LABEL, Role, SparkConnect, SparkConnectSpec,
    names::{conf, label, submit_conf},
};
use k8s_openapi::api::core::v1::Service;
use kube_core::ResourceExt;
use spark_client::Line;
use submission::{
    exposure::ExposureRight,
    findings::{Findings, Refusal},
};
use validation::{
    Files, check_name, is_bounded, is_label,
    kubernetes::{Place, mistakes},
};

/// Replacements that turn a finding about an application into one about a server. They are applied in this order, each
/// to the result of the one before.
const WORDS: [(&str, &str); 14] = [
    ("spec.driver", "spec.server"),
    ("write spec.server.kubernetesMaster instead", "the operator sets it: take it out"),
    ("spec.server.image", "the image of the container in spec.server.template"),
    ("spec.executor.image", "the image of the container in spec.executor.template"),
    ("spec.executor.serviceAccount", "serviceAccountName in spec.executor.template"),
    ("an application runs in its own namespace", "a server runs in its own namespace"),
    ("the application requests", "the SparkConnect requests"),
    ("(driver ", "(server "),
    ("cores or coreRequest of", "cores of"),
    ("memory or memoryOverhead of", "memory of"),
    ("coreLimit, or cores where there is none, of", "the CPU limits of"),
    ("memory, memoryOverhead or memoryLimit of", "memory of"),
    (" of driver and executor", " of server and executor, or what their templates ask for"),
    ("the operator sets it to `server`", "the operator sets it to `Spark Connect server`"),
];
/// Checks that the server can run with the spec that the user wrote.
///
/// # Errors
///
/// All mistakes.
pub fn validate(connect: &SparkConnect) -> Result<(), Refusal> {
    let Findings { invalid, .. } = examine(connect);
    if invalid.is_empty() { Ok(()) } else { Err(Refusal(invalid)) }
}

/// Returns the mistakes and the warnings of a SparkConnect.
pub fn examine(connect: &SparkConnect) -> Findings {
    let mut findings = Findings::default();
    let json = serde_json::to_string(&connect.spec).expect("a spec is JSON");
    if !is_bounded(&json, "spec", &mut findings) {
        return findings.told("spec");
    }
    check_name("SparkConnect", &connect.metadata, names::LONGEST_NAME, &mut findings);
    fields(connect, &mut findings);
    labels(connect, &mut findings);
    service(connect, &mut findings);
    let of_application = validation::examine(&as_application(connect), Files::Stay);
    for invalid in of_application.invalid {
        findings.refuse(of_server(invalid.field), of_server(invalid.why));
    }
    for warning in of_application.warnings {
        let (field, what) = warning.split_once(": ").unwrap_or(("spec", warning.as_str()));
        findings.warn(of_server(field.to_owned()), of_server(what.to_owned()));
    }
    // Objects of a spec with mistakes would repeat them.
    if findings.invalid.is_empty() {
        planned(connect, &mut findings);
    }
    findings.told("spec")
}

/// Returns the rights that a user needs for the Service of `spec`. The list is empty if `old` has the same Service, or
/// if the Service is of type ClusterIP and has neither `externalIPs` nor annotations, as for applications, nor a
/// cluster IP that the user has chosen: clients may expect another user's Service at that address.
pub fn exposure_rights(old: Option<&SparkConnectSpec>, spec: &SparkConnectSpec) -> Vec<ExposureRight> {
    let Some(service) = &spec.server.service else { return Vec::new() };
    if old.is_some_and(|old| old.server.service.as_ref() == Some(service)) {
        return Vec::new();
    }
    let given = service.json();
    let text = |field: &str| given["spec"][field].as_str().unwrap_or_default();
    let field = if !["", "ClusterIP"].contains(&text("type")) {
        "spec.type"
    } else if !["", "None"].contains(&text("clusterIP")) || given["spec"]["clusterIPs"].get(1).is_some() {
        "spec.clusterIP"
    } else if !given["spec"]["externalIPs"].is_null() {
        "spec.externalIPs"
    } else if !given["metadata"]["annotations"].is_null() {
        "metadata.annotations"
    } else {
        return Vec::new();
    };
    vec![ExposureRight { group: "", resource: "services", field: format!("spec.server.service.{field}") }]
}

/// Checks the fields that only a server has, and those whose rules differ from an application's.
fn fields(connect: &SparkConnect, findings: &mut Findings) {
    let SparkConnectSpec { spark_version, server, executor, .. } = &connect.spec;
    if spark_version.is_empty() {
        findings.refuse("spec.sparkVersion", "is missing: write the version in the image, such as `4.0.1`");
    }
    for (role, template) in [(Role::Driver, &server.template), (Role::Executor, &executor.template)] {
        if image(template.as_ref(), role, connect.spec.image.as_ref()).is_none() {
            let section = if role == Role::Driver { "server" } else { "executor" };
            let why =
                format!("is missing: write it, or the image of the container in spec.{section}.template");
            findings.refuse("spec.image", why);
        }
    }
    for (field, seconds) in [
        ("spec.ttlSecondsAfterIdle", connect.spec.ttl_seconds_after_idle),
        ("spec.sleepAfterIdleSeconds", connect.spec.sleep_after_idle_seconds),
    ] {
        if let Some(seconds) = seconds.filter(|seconds| *seconds < LEAST_IDLE_SECONDS) {
            findings
                .refuse(field, format_args!("`{seconds}` is too short: write {LEAST_IDLE_SECONDS} or more"));
        }
    }
    if let Some(token) = &server.token {
        if token.name.is_empty() || token.key.is_empty() {
            findings
                .refuse("spec.server.token", "names no entry: write the name of a Secret and a key in it");
        }
        if Line::is_older(spark_version, (4, 1)) {
            let why = format!(
                "needs Spark 4.1, and sparkVersion is `{spark_version}`: that server would not check tokens"
            );
            findings.refuse("spec.server.token", why);
        }
    }
    let names_jar =
        |key: &str| connect.spec.spark_conf.get(key).is_some_and(|jars| jars.contains("spark-connect"));
    if Line::is_older(spark_version, (4, 0))
        && !names_jar(submit_conf::JARS)
        && !names_jar(submit_conf::PACKAGES)
    {
        let what = "names no jar of Spark Connect, which images have since Spark 4.0: if yours has none, write \
            `spark.jars.packages: org.apache.spark:spark-connect_2.12:VERSION`";
        findings.warn("spec.sparkConf", what);
    }
    if let Some(allocation) = &connect.spec.dynamic_allocation
        && allocation.enabled
        && let Some(initial) = allocation.initial_executors
        && (initial < allocation.min_executors.unwrap_or(0).max(0)
            || initial > allocation.max_executors.unwrap_or(i32::MAX))
    {
        let why = format!("`{initial}` is not between minExecutors and maxExecutors");
        findings.refuse("spec.dynamicAllocation.initialExecutors", why);
    }
    let mode = connect.spec.spark_conf.get(conf::DEPLOY_MODE);
    if let Some(mode) = mode.filter(|mode| *mode != "client") {
        let field = format!("spec.sparkConf[{}]", conf::DEPLOY_MODE);
        let why =
            format!("`{mode}` is not possible, a server of Spark Connect runs in its own pod: take it out");
        findings.refuse(field, why);
    }
    for (key, port, what) in [
        (submit_conf::CONNECT_PORT, CONNECT_PORT, "is ignored: clients connect to port"),
        (conf::UI_PORT, UI_PORT, "makes the web UI unreachable: it is expected at port"),
    ] {
        if connect.spec.spark_conf.get(key).is_some_and(|given| *given != port.to_string()) {
            findings
                .warn(format_args!("spec.sparkConf[{key}]"), format_args!("{what} {port} of the Service"));
        }
    }
}

/// Refuses the labels by which the operator finds the pods of applications. Otherwise it would take the pods of a
/// server for those of an application, and would delay the application's next run until they are deleted.
fn labels(connect: &SparkConnect, findings: &mut Findings) {
    let SparkConnectSpec { server, executor, spark_conf, .. } = &connect.spec;
    let of_executors = conf::kubernetes(Role::Executor, conf::LABEL_PREFIX);
    for key in [label::APP_NAME, label::SUBMISSION_ID] {
        let why = format!("`{key}` is reserved for the pods of applications: take it out");
        if connect.labels().contains_key(key) {
            findings.refuse("metadata.labels", &why);
        }
        for (section, template) in [("server", &server.template), ("executor", &executor.template)] {
            let labels = template.as_ref().map(|template| &template.json()["metadata"]["labels"]);
            if labels.is_some_and(|labels| !labels[key].is_null()) {
                findings.refuse(format_args!("spec.{section}.template.metadata.labels"), &why);
            }
        }
        let property = format!("{of_executors}{key}");
        if spark_conf.contains_key(&property) {
            findings.refuse(format_args!("spec.sparkConf[{property}]"), &why);
        }
    }
}

fn service(connect: &SparkConnect, findings: &mut Findings) {
    const FIELD: &str = "spec.server.service";
    let Some(service) = &connect.spec.server.service else { return };
    if let Err(error) = serde_json::from_value::<Service>(service.json().clone()) {
        return findings.refuse(FIELD, format_args!("is not a Service: {error}"));
    }
    let (name, spec) = (names::service(connect), &service.json()["spec"]);
    let is_given = service.json()["metadata"]["name"] == name.as_str();
    if is_given && (name.len() > LONGEST_LABEL || !is_label(&name)) {
        let why = format!(
            "`{name}` cannot be the name of a Service: write at most {LONGEST_LABEL} lower-case letters, digits and `-`, a letter first"
        );
        findings.refuse("spec.server.service.metadata.name", why);
    }
    if spec["type"] == "ExternalName" {
        findings.refuse(
            "spec.server.service.spec.type",
            "`ExternalName` does not lead to the server: write ClusterIP, NodePort or LoadBalancer",
        );
    }
    if connect.needs_gateway() && spec["clusterIP"] == "None" {
        let why =
            "clients would bypass the gateway, which records connections and wakes the server: take it out";
        findings.refuse("spec.server.service.spec.clusterIP", why);
    }
}

/// Checks the objects that would be created, by the rules of Kubernetes.
fn planned(connect: &SparkConnect, findings: &mut Findings) {
    let policy = Policy::new("k8s://https://kubernetes.default.svc");
    let mut with_metadata = connect.clone();
    with_metadata.metadata.name.get_or_insert_with(|| "server".to_owned());
    for (place, why) in mistakes(&server_pod(&with_metadata, &policy)) {
        match place {
            Place::Field(path) => findings.refuse(format_args!("spec.server.template.spec.{path}"), why),
            place => {
                findings.refuse("spec.server.template", format_args!("the pod would have {place}: {why}"))
            }
        }
    }
    for object in objects::wanted(&with_metadata, &policy, None, None) {
        for (place, why) in mistakes(&object) {
            let kind = object["kind"].as_str().unwrap_or_default();
            findings.refuse("spec.server.service", format_args!("its {kind} would have {place}: {why}"));
        }
    }
}

/// Returns the text of a finding about an application as one about a server.
pub(super) fn of_server(text: String) -> String {
    WORDS.iter().fold(text, |text, (application, server)| text.replace(application, server))
}
