//! What is given to native submission for an application? The same as to `spark-submit`.

use super::{Context, DIRECTORY, dependencies, properties, stated, templates};
use crate::{
    api::{
        Role, SparkApplication,
        names::{conf, submit_conf},
        with_defaults,
    },
    plan::{
        Policy,
        native::{Environment, Ids, Line, NotNative, Submission, flag_list, read_properties},
        run::Run,
        validation,
    },
};
use jiff::Timestamp;

/// The flags whose lists Spark resolves before they become properties.
const RESOLVED: [&str; 4] =
    [submit_conf::JARS, submit_conf::FILES, submit_conf::ARCHIVES, submit_conf::PY_FILES];

/// The native submission of `run`. `defaults` is the text of a `spark-defaults.conf`, below all other
/// properties; `environment` is what `spark-submit` would find around it.
///
/// # Errors
///
/// When the application cannot be run as it is written.
pub fn native(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    defaults: &str,
    environment: Environment,
    now: Timestamp,
) -> Result<Submission, NotNative> {
    validation::validate(application).map_err(|refusal| NotNative::Refused(refusal.to_string()))?;
    let spec = with_defaults(application.spec.clone());
    let directory = format!("{DIRECTORY}/{}", run.id);
    let context = Context { application, spec: &spec, run, directory: &directory };

    let refused = |problem| NotNative::Refused(format!("spark-defaults.conf: {problem}"));
    let mut merged = read_properties(defaults).map_err(refused)?;
    merged.extend(properties(&context).into_map());
    merged.retain(|key, _| key.starts_with("spark."));
    merged.insert(conf::MASTER.to_owned(), policy.master.clone());
    merged.insert(conf::DEPLOY_MODE.to_owned(), "cluster".to_owned());
    merged.insert(conf::APP_NAME.to_owned(), context.name().to_owned());
    for (_, key, list) in dependencies::lists(&spec.deps).into_iter().filter(|(_, _, list)| !list.is_empty())
    {
        let list = list.join(",");
        let list = if RESOLVED.contains(&key) { flag_list(key, &list)? } else { list };
        merged.insert(key.to_owned(), list);
    }
    let templates = context.has_templates();
    Ok(Submission {
        line: Line::nearest(&spec.spark_version).0,
        spark_version: spec.spark_version.clone(),
        properties: merged,
        main_class: spec.main_class.clone(),
        primary_resource: spec.main_application_file.clone(),
        arguments: spec.arguments.clone(),
        proxy_user: stated(&spec.proxy_user).cloned(),
        driver_template: templates.then(|| templates::template(application, &spec, Role::Driver)),
        executor_template: templates.then(|| templates::text(application, &spec, Role::Executor)),
        environment,
        ids: Ids::of_run(&run.id),
        now,
    })
}
