//! Sets the properties that identify an application (names, labels, annotations and service accounts) and the
//! properties of the user's own configuration.

use super::{Context, DIRECTORY, file};
use api::{Identity, Role, SparkApplication, conf, label, stated};
use spark_client::Conf;

/// Returns the driver pod's name: `spec.driver.podName`, else `spark.kubernetes.driver.pod.name` in `sparkConf`, else
/// `<application>-driver`.
pub fn driver_pod_name(application: &SparkApplication) -> String {
    let spec = &application.spec;
    let configured = || spec.spark_conf.get(conf::DRIVER_POD_NAME).filter(|name| !name.is_empty());
    let derived = || format!("{}-driver", application.own_name());
    stated(&spec.driver.pod_name).or_else(configured).cloned().unwrap_or_else(derived)
}

/// Sets the properties of `sparkConf` and `hadoopConf`.
pub(super) fn user_configuration(context: &Context, properties: &mut Conf) {
    properties.set_all("", &context.spec.spark_conf);
    properties.set_all(conf::HADOOP_PREFIX, &context.spec.hadoop_conf);
}

pub(super) fn names(context: &Context, properties: &mut Conf) {
    properties.set(conf::DRIVER_POD_NAME, driver_pod_name(context.application));
    properties.set_some(conf::DRIVER_MASTER, context.spec.driver.kubernetes_master.as_ref());
    for (role, pod) in context.pods() {
        properties.set_some(conf::service_account(role), pod.service_account.as_ref());
    }
}

pub(super) fn labels_and_annotations(context: &Context, properties: &mut Conf) {
    let driver = &context.spec.driver;
    for (role, pod) in context.pods() {
        let application_labels = context.application.metadata.labels.iter().flatten();
        for (name, value) in application_labels.filter(|(name, _)| !name.starts_with(label::KUEUE_PREFIX)) {
            properties.set(role_label(role, name), value);
        }
        properties.set_all(&conf::kubernetes(role, conf::LABEL_PREFIX), &pod.labels);
        properties.set_all(&conf::kubernetes(role, conf::ANNOTATION_PREFIX), &pod.annotations);
    }
    properties.set_all(conf::DRIVER_SERVICE_LABEL_PREFIX, &driver.service_labels);
    properties.set_all(conf::DRIVER_SERVICE_ANNOTATION_PREFIX, &driver.service_annotations);
}

/// Sets the properties that an application may not change. The operator finds the application's pods by most of them,
/// and `waitAppCompletion` would make the submission wait for the end of the application. (In Kubeflow's operator the
/// user's value takes precedence.)
pub(super) fn operator_owned(context: &Context, properties: &mut Conf) {
    properties.set(conf::NAMESPACE, context.application.own_namespace());
    properties.set(conf::WAIT_APP_COMPLETION, "false");
    for (role, pod) in context.pods() {
        properties.set(role_label(role, label::APP_NAME), context.name());
        properties.set(role_label(role, label::LAUNCHED_BY), "true");
        properties.set(role_label(role, label::SUBMISSION_ID), context.run.id.as_str());
        if !context.has_templates() || pod.template.is_none() {
            properties.set(role_label(role, label::MUTATED_BY), "true");
        }
        if context.has_templates() {
            let template = format!("{DIRECTORY}/{}", file::template(role));
            properties.set(conf::kubernetes(role, conf::POD_TEMPLATE_FILE), template);
            properties.set(conf::kubernetes(role, conf::POD_TEMPLATE_CONTAINER), role.container());
        } else {
            let annotations = pod_customization::annotations(context.application, role);
            properties.set_all(&conf::kubernetes(role, conf::ANNOTATION_PREFIX), &annotations);
        }
    }
}

fn role_label(role: Role, name: &str) -> String {
    conf::kubernetes(role, &format!("{}{name}", conf::LABEL_PREFIX))
}
