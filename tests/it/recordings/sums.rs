//! Compares the sums of requests for quotas and batch schedulers with the requests of the drivers that `spark-submit`
//! has created.

use super::{Case, command_line};
use crate::prelude::*;
use plan::pod_requests::PodRequests;
use pods::PodClaim;
use spark_client::Submission;

/// Parts of the names of the properties that determine the requests of a pod.
const ABOUT_SIZES: [&str; 6] =
    ["emory", "cores", ".resource.", "dynamicAllocation", "executor.instances", "offHeap"];

#[test]
fn the_sums_equal_the_requests_of_the_drivers_of_spark_submit() {
    let (mut compared, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for case in Case::all_in(&data("recordings")).iter().filter(|case| case.exit_code == 0) {
        let Ok(submission) = command_line::submission(case, case.ids()) else { continue };
        let sent = case.sent();
        let pod =
            sent.iter().find(|exchange| exchange.body["kind"] == "Pod").map(|exchange| exchange.body.clone());
        let Some(pod) = pod.and_then(|pod| serde_json::from_value(pod).ok()) else { continue };
        let name = format!("{} {}", case.spark_version, case.name);
        let application = application(&submission);
        match validate(&application).and_then(|valid| PodRequests::of(&valid, "", "sums")) {
            Ok(requests) => {
                let (ours, theirs) = (requests.driver.claim, PodClaim::of(pod));
                if ours.requests() != theirs.requests() {
                    wrong.push(format!("{name}: {:?} instead of {:?}", ours.requests(), theirs.requests()));
                }
                compared += 1;
            }
            Err(error) => refused.push(format!("{name}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused.len() * 10 < compared, "{}", refused.join("\n"));
}

/// Returns an application with the settings of a submission that are about sizes.
fn application(submission: &Submission) -> SparkApplication {
    let Submission { spark_version, properties, main_class, primary_resource, driver_template, .. } =
        submission;
    let language = match primary_resource.rsplit('.').next() {
        Some("py") => "Python",
        Some("R") => "R",
        _ => "Scala",
    };
    let conf: BTreeMap<_, _> =
        properties.iter().filter(|(key, _)| ABOUT_SIZES.iter().any(|part| key.contains(part))).collect();
    let mut template = driver_template.clone().unwrap_or_default();
    // In an application's own template, Spark's container has Spark's name.
    let named = properties.get("spark.kubernetes.driver.podTemplateContainerName");
    for container in template["spec"]["containers"].as_array_mut().into_iter().flatten() {
        if named.is_some_and(|name| container["name"] == **name) {
            container["name"] = Role::Driver.container().into();
        }
    }
    let object = json!({
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {
            "type": language, "sparkVersion": spark_version, "mainClass": main_class, "mainApplicationFile": primary_resource, "image": "spark",
            "sparkConf": conf, "driver": {"template": Some(template).filter(|_| driver_template.is_some())}, "executor": {},
        },
    });
    serde_json::from_value(object).unwrap()
}
