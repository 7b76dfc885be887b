//! Adds to the driver's container the arguments with which the driver starts, and the environment variables that choose
//! its Python.

use super::{Context, driver_in_progress::Driver, input::Kind, not_native::NotNative, submit_conf};
use api::names::env;

/// The main classes that Spark uses for Python and R programs.
const PYTHON_RUNNER: &str = "org.apache.spark.deploy.PythonRunner";
const R_RUNNER: &str = "org.apache.spark.deploy.RRunner";

pub(super) fn command(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let submission = context.submission;
    let kind = submission.kind();
    let class = match kind {
        Kind::Java => submission.main_class.as_deref().unwrap_or_default(),
        Kind::Python => PYTHON_RUNNER,
        Kind::R => R_RUNNER,
    };
    let proxy = submission.proxy_user.iter().flat_map(|user| ["--proxy-user", user]);
    let file = ["--properties-file", "/opt/spark/conf/spark.properties"];
    let arguments =
        ["driver"].into_iter().chain(proxy).chain(file).chain(["--class", class, &context.program]);
    let arguments = arguments.chain(submission.arguments.iter().map(String::as_str));
    driver.add_args(arguments.map(str::to_owned));
    if kind == Kind::Python {
        pythons(context, driver)?;
    }
    driver.set_property(submit_conf::RESOURCE_TYPE, kind.as_str());
    Ok(())
}

fn pythons(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let environment = &context.submission.environment;
    let common = context.conf.text(submit_conf::PYTHON)?;
    let common_or = |other: &Option<String>| common.clone().or_else(|| other.clone());
    let of_driver = context.conf.text(submit_conf::DRIVER_PYTHON)?;
    let of_driver = of_driver.or_else(|| common_or(&environment.pyspark_driver_python));
    for (name, python) in [
        (env::PYSPARK_PYTHON, common_or(&environment.pyspark_python)),
        (env::PYSPARK_DRIVER_PYTHON, of_driver.or_else(|| environment.pyspark_python.clone())),
    ] {
        if let Some(python) = python {
            driver.add_env(name, &python);
        }
    }
    Ok(())
}
