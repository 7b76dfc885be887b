//! Builds a SparkApplication that stands in for a server: checks and calculations that apply to both take a
//! SparkApplication (crates `validation`, `submission` and `plan`).

use api::{
    Embedded, Role, SparkApplication, SparkApplicationSpec, SparkConnect, SparkPodSpec,
    names::{conf, submit_conf},
    stated,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use submission::pod_templates::sparks_container;

/// Properties whose rules for an application do not apply to a server: the pod's name, which the operator sets anyway,
/// the deploy mode, and lists of files, which are in the server's image.
const LEFT_OUT: [&str; 6] = [
    conf::DEPLOY_MODE,
    conf::DRIVER_POD_NAME,
    submit_conf::JARS,
    submit_conf::FILES,
    submit_conf::ARCHIVES,
    submit_conf::PY_FILES,
];

/// Returns the stand-in for `connect`.
pub(super) fn as_application(connect: &SparkConnect) -> SparkApplication {
    let spec = &connect.spec;
    let mut common = SparkApplicationSpec {
        spark_version: spec.spark_version.clone(),
        image: Some(stated(&spec.image).map_or_else(|| "spark".to_owned(), Clone::clone)),
        main_class: Some("Server".to_owned()),
        main_application_file: "local:///server.jar".to_owned(),
        spark_conf: spec.spark_conf.clone(),
        hadoop_conf: spec.hadoop_conf.clone(),
        dynamic_allocation: spec.dynamic_allocation.clone(),
        ..SparkApplicationSpec::default()
    };
    common.spark_conf.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
    let (server, executor) = (&spec.server, &spec.executor);
    common.driver.pod = SparkPodSpec {
        cores: server.cores,
        memory: stated(&server.memory).cloned(),
        service_account: stated(&server.service_account).cloned(),
        // The operator sets the command. A server keeps the image and resources of its template, which Spark would
        // overwrite in a driver's.
        template: without(server.template.as_ref(), Role::Driver, &["args", "command", "image", "resources"]),
        ..SparkPodSpec::default()
    };
    // A server may have zero executors, an application may not.
    common.executor.instances = executor.instances.filter(|instances| *instances != 0);
    common.executor.pod = SparkPodSpec {
        cores: executor.cores,
        memory: stated(&executor.memory).cloned(),
        template: without(executor.template.as_ref(), Role::Executor, &["image"]),
        ..SparkPodSpec::default()
    };
    let mut application = SparkApplication::new("server", common);
    application.metadata.namespace.clone_from(&connect.metadata.namespace);
    application
}

/// Returns a pod template without these fields of Spark's container.
fn without(
    template: Option<&Embedded<PodTemplateSpec>>,
    role: Role,
    fields: &[&str],
) -> Option<Embedded<PodTemplateSpec>> {
    let mut template = template?.json().clone();
    let containers = template.pointer_mut("/spec/containers");
    if let Some(containers) = containers.filter(|list| list.as_array().is_some_and(|list| !list.is_empty())) {
        let sparks = sparks_container(containers, role);
        if let Some(container) = containers[sparks].as_object_mut() {
            container.retain(|field, _| !fields.contains(&field.as_str()));
        }
    }
    Some(template.into())
}
