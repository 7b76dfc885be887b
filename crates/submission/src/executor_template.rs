//! Builds the pod template of a run's executors, which is updated after an edit of the spec. Spark's driver reads the
//! file for each executor that it creates (`KubernetesExecutorBuilder.buildFromFeatures`), and the kubelet replaces the
//! file when the ConfigMap changes.

use crate::{Settings, digest::fingerprint, findings::Validated, run::Run, template};
use api::{Identity, Role, SparkApplication, annotation};
use serde_json::{Value, json};
use spark_client::{Objects, TEMPLATE_KEY, template_config_map, template_text};

/// A template, and the name of the ConfigMap from which the driver reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorTemplate {
    pub config_map: String,
    pub text: String,
}

impl ExecutorTemplate {
    /// Returns the template of the executors of `run` according to the present spec.
    ///
    /// # Errors
    ///
    /// When an annotation of the template cannot be applied.
    pub fn of(
        application: &Validated,
        run: &Run,
        settings: &Settings,
    ) -> Result<Self, crate::findings::Refusal> {
        let template = template(application, Role::Executor, settings)?;
        Ok(Self { config_map: config_map(application, run), text: template_text(&template) })
    }

    /// Returns the value of the annotation [`annotation::TEMPLATE`] of a driver that has this template.
    pub fn fingerprint(&self) -> String {
        fingerprint(&[self.text.as_str()])
    }

    /// Returns the merge patch of the ConfigMap (RFC 7386).
    pub fn patch(&self) -> Value {
        json!({"data": {TEMPLATE_KEY: self.text}})
    }
}

/// Makes the ConfigMap of the executors' template mutable in `objects`, the objects of a native submission of `run`,
/// and annotates the driver with the template's fingerprint. Without such a template, as before Spark 3.0, nothing
/// changes.
pub fn make_renewable(objects: &mut Objects, application: &SparkApplication, run: &Run) {
    let config_map = config_map(application, run);
    let is_it = |child: &&mut Value| child["kind"] == "ConfigMap" && child["metadata"]["name"] == config_map;
    let Some(child) = objects.children.iter_mut().find(is_it) else { return };
    let Some(text) = child["data"][TEMPLATE_KEY].as_str().map(str::to_owned) else { return };
    if let Some(fields) = child.as_object_mut() {
        fields.remove("immutable");
    }
    objects.pod["metadata"]["annotations"][annotation::TEMPLATE] = fingerprint(&[text.as_str()]).into();
}

fn config_map(application: &SparkApplication, run: &Run) -> String {
    template_config_map(application.own_name(), &run.ids())
}
