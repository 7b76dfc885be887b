//! Builds the submission of a run: the input of `spark-submit` (arguments, properties and pod templates), the objects
//! of a native submission or of a submission pod, and the Services and Ingresses for the driver's ports.
//!
//! [`CONCERNS`] lists the functions that set properties, in the order of Kubeflow's operator: a later concern overrides
//! an earlier one.

mod allocation;
pub mod content;
pub mod digest;
pub mod executor_template;
pub mod exposure;
mod fields;
pub mod findings;
mod identity;
pub mod monitoring;
mod native;
pub mod owned;
pub mod pod_templates;
mod resources;
pub mod run;
mod scheduling;
mod secrets;
pub mod spec_hash;
pub mod submission_pod;
pub mod volumes;

pub use allocation::allocation_properties;
use api::{Identity, ObjectKind, Role, SparkApplication, SparkApplicationSpec, SparkPodSpec, stated};
use exposure::Exposure;
pub use fields::{RoleField, field_of, stated_in};
use findings::{Invalid, Refusal, Validated};
pub use identity::driver_pod_name;
pub use native::{model, model_submission, native, objects};
use run::Run;
use serde_json::Value;
use spark_client::{
    Conf, Environment, Line, file_text, properties_beside_file, read_properties, template_text,
};
use std::collections::{BTreeMap, BTreeSet};

/// All functions that set properties, in order of precedence. The last one sets the properties that users may not
/// change.
const CONCERNS: [Concern; 12] = [
    resources::common,
    exposure::web_ui,
    identity::user_configuration,
    identity::names,
    resources::of_roles,
    identity::labels_and_annotations,
    secrets::of_roles,
    volumes::scratch_space,
    scheduling::node_selector,
    allocation::dynamic_allocation,
    monitoring::metrics,
    identity::operator_owned,
];

/// Sets the properties of one concern.
type Concern = fn(&Context, &mut Conf);

/// The directory at which a submission pod has the files of `spark-submit`: the properties, the pod templates, and the
/// subdirectories `conf` and `hadoop`.
pub const DIRECTORY: &str = "/etc/spark-submission";

/// One invocation of `spark-submit`: its arguments, and the files that the arguments name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparkSubmit {
    /// All arguments, without the path of `spark-submit` itself.
    pub arguments: Vec<String>,
    /// The contents of the properties file and of the pod templates, by their file names in [`DIRECTORY`].
    pub files: BTreeMap<&'static str, String>,
    /// All properties that the properties file and the arguments set, by key.
    pub properties: BTreeMap<String, String>,
}

/// The admin's settings for all submissions: the default properties, and the environment variables and configuration
/// files that the operator has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubmissionEnvironment {
    /// The text of `spark-defaults.conf`. All other properties override it.
    pub defaults: String,
    pub environment: Environment,
    /// The kinds that the cluster is known to serve, of those on which the submission depends.
    pub served: BTreeSet<ObjectKind>,
}

/// The settings of the admin on which all submissions depend.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The API server's address in the form of Spark's `--master`: `k8s://https://…`.
    pub master: String,
    /// Whether the webhook customizes pods.
    pub has_webhook: bool,
    /// How the ports of drivers can be reached.
    pub exposure: Exposure,
    /// The settings for submission pods.
    pub submission_pod: submission_pod::Settings,
}

impl Settings {
    /// Returns the settings with this API server address and the default of every other setting.
    pub fn new(master: impl Into<String>) -> Self {
        Self {
            master: master.into(),
            has_webhook: true,
            exposure: Exposure::default(),
            submission_pod: submission_pod::Settings::default(),
        }
    }
}

/// The names of the files in [`DIRECTORY`].
pub mod file {
    use api::Role;

    pub(super) const PROPERTIES: &str = "spark.properties";

    /// Returns the name of the pod template of `role`.
    pub const fn template(role: Role) -> &'static str {
        match role {
            Role::Driver => "driver-pod-template.yaml",
            Role::Executor => "executor-pod-template.yaml",
        }
    }
}

/// The input of a concern.
struct Context<'a> {
    application: &'a SparkApplication,
    /// The spec, with its defaults filled in.
    spec: &'a SparkApplicationSpec,
    run: &'a Run,
    /// The properties of `spark-defaults.conf`, which all other properties override.
    defaults: &'a BTreeMap<String, String>,
    /// The path of the driver's web UI outside the cluster; `None` if its URL has no path, or if the path is not known
    /// yet.
    ui_path: Option<String>,
}

impl<'a> Context<'a> {
    /// Returns the roles with their sections.
    fn pods(&self) -> [(Role, &'a SparkPodSpec); 2] {
        Role::ALL.map(|role| (role, role.pod(self.spec)))
    }

    fn has_templates(&self) -> bool {
        Line::has_templates(&self.spec.spark_version)
    }

    fn name(&self) -> &str {
        self.application.own_name()
    }
}

/// Returns the invocation of `spark-submit` that creates the objects of `run`. `defaults` is the text of a
/// `spark-defaults.conf`; all other properties override it.
///
/// `defaults` becomes part of the properties file, because Spark reads `spark-defaults.conf` itself only if there is no
/// `--properties-file`. Both files have the format of `java.util.Properties`, in which the last line for a key takes
/// effect.
///
/// # Errors
///
/// When an annotation of a pod template cannot be applied.
pub fn spark_submit(
    application: &Validated,
    run: &Run,
    settings: &Settings,
    defaults: &str,
) -> Result<SparkSubmit, Refusal> {
    // A file that cannot be parsed is ignored here: Spark itself refuses it.
    let read = read_properties(defaults).unwrap_or_default();
    // Spark's application id is not known here: `spark-submit` chooses it.
    let ui_path = exposure::ui_path(application, None, &settings.exposure);
    let spec = application.spec_with_defaults();
    let context = Context { application, spec, run, defaults: &read, ui_path };

    let properties = properties(&context);
    let arguments = arguments(&context, settings, &properties);
    let own = file_text(&properties.0);
    // The blank line ends the last line of `defaults`: a line that ends in a backslash would otherwise continue in the
    // next one.
    let text = if defaults.is_empty() { own } else { format!("{defaults}\n\n{own}") };
    let mut files = BTreeMap::from([(file::PROPERTIES, text)]);
    if context.has_templates() {
        for role in Role::ALL {
            let template = template(application, role, settings)?;
            files.insert(file::template(role), template_text(&template));
        }
    }
    Ok(SparkSubmit { arguments, files, properties: properties.over(read).0 })
}

/// Copies the fields in `fields` that `from` has.
pub fn copy_fields(to: &mut Value, from: &Value, fields: &[&str]) {
    for field in fields.iter().filter(|field| !from[**field].is_null()) {
        to[*field] = from[*field].clone();
    }
}

/// Returns the template from which Spark creates pods of `role`.
fn template(application: &SparkApplication, role: Role, settings: &Settings) -> Result<Value, Refusal> {
    if settings.has_webhook {
        return Ok(pod_templates::template(application, role));
    }
    let refused = |why| Refusal(vec![Invalid { field: format!("spec.{}", role.as_str()), why }]);
    pod_templates::customized(application, role).map_err(refused)
}

fn properties(context: &Context) -> Conf {
    let mut properties = Conf(BTreeMap::new(), Line::nearest(&context.spec.spark_version).0);
    CONCERNS.iter().for_each(|concern| concern(context, &mut properties));
    properties
}

/// Returns the properties of a run of an application, including those of a `spark-defaults.conf`, and for each role the pod
/// template from which Spark creates the role's pods. The submission id among the properties is that of no real run
/// ([`Run::model`]): to compute a real one takes a hash of the spec.
pub fn starting_point(application: &Validated, defaults: BTreeMap<String, String>) -> (Conf, [Value; 2]) {
    let (spec, run) = (application.spec_with_defaults(), Run::model(application));
    let context = Context { application, spec, run: &run, defaults: &defaults, ui_path: None };
    let properties = properties(&context);
    (properties.over(defaults), Role::ALL.map(|role| pod_templates::template(application, role)))
}

fn arguments(context: &Context, settings: &Settings, properties: &Conf) -> Vec<String> {
    let spec = context.spec;
    let mut arguments = Vec::new();
    let mut flag = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
    flag("--master", &settings.master);
    flag("--deploy-mode", "cluster");
    if let Some(class) = &spec.main_class {
        flag("--class", class);
    }
    flag("--name", context.name());
    for (name, .., list) in fields::dependencies(&spec.deps) {
        flag(name, &list.join(","));
    }
    // Not `--conf`: Linux refuses a single argument of more than 128 KiB (Kubeflow issue 433).
    flag("--properties-file", &format!("{DIRECTORY}/{}", file::PROPERTIES));
    for property in properties_beside_file(&properties.0) {
        flag("--conf", &property);
    }
    if let Some(user) = stated(&spec.proxy_user) {
        flag("--proxy-user", user);
    }
    arguments.push(spec.main_application_file.clone());
    arguments.extend(spec.arguments.iter().cloned());
    arguments
}
