//! Tests how `sparkctl render` shows an application that a batch scheduler places.

use crate::{
    ctl::{application, rendered},
    gang::chosen,
};
use api::SparkApplication;
use batch_schedulers::BatchSchedulers;
use plan::{By, Policy, extension::only, submission_plan::Submitter};
use serde_json::{Map, Value, json};
use spark_client::read_properties;
use submission::{DIRECTORY, run::Run};

/// The pods that `spark-submit` creates belong to a group through the labels and annotations in the properties and
/// templates that the operator gives to it.
#[test]
fn a_rendered_gang_has_the_files_that_the_operator_gives_to_spark_submit() {
    for scheduler in ["volcano", "yunikorn", "coscheduling", "kubernetes"] {
        let mut application = application(json!({"batchScheduler": scheduler}));
        application.metadata.uid = Some("6c1f0b5e-0000-4000-8000-000000000001".to_owned());
        let text = rendered(&application, &["--submitter=spark-submit"]);
        for (file, content) in submission_files(&application, scheduler) {
            let (written, content) = (written(&text, &file), content.as_str().unwrap());
            if file == "spark.properties" {
                assert_eq!(read_properties(&written), read_properties(content), "{scheduler}");
            } else {
                let written: Value = serde_saphyr::from_str(&written).unwrap();
                let template: Value = serde_json::from_str(content).unwrap();
                assert_eq!(written, template, "{scheduler}: {file}");
            }
        }

        // All that differs is what the webhook adds to the driver of `spark-submit`.
        let by_webhook = if scheduler == "kubernetes" {
            let id = Run::next(&application).id;
            vec!["+  schedulingGroup:".to_owned(), format!("+    podGroupName: pi-{}", &id.as_str()[..8])]
        } else {
            vec![format!("+  schedulerName: {scheduler}")]
        };
        let difference = rendered(&application, &["--diff"]);
        let is_about_the_gang = |line: &str| {
            let line = line.to_lowercase();
            ["sched", "group", "workload", "placeholder"].iter().any(|word| line.contains(word))
        };
        let changed: Vec<_> = difference
            .lines()
            .filter(|line| line.starts_with(['+', '-']) && is_about_the_gang(line))
            .collect();
        assert_eq!(changed, by_webhook, "{difference}");
    }
}

/// Returns the files from which `spark-submit` runs if the operator hands `application` over to a batch scheduler, by
/// their names.
fn submission_files(application: &SparkApplication, scheduler: &str) -> Map<String, Value> {
    let schedulers = BatchSchedulers::new(vec![scheduler.to_owned()], true, None).unwrap();
    let policy = Policy {
        submitter: Submitter::SparkSubmit,
        extensions: only(schedulers),
        ..Policy::new("k8s://https://kubernetes.default.svc:443")
    };
    let By::Pod { objects, .. } = chosen(application, &policy).unwrap().request.by else {
        panic!("{scheduler}: not by spark-submit")
    };
    objects.children.last().unwrap()["data"].as_object().unwrap().clone()
}

/// Returns what the script in the comments of `text` writes into `file`.
fn written(text: &str, file: &str) -> String {
    let script: String =
        text.lines().filter_map(|line| line.strip_prefix("#$ ")).map(|line| format!("{line}\n")).collect();
    let (_, after) = script.split_once(&format!("/{file} <<'EOF'\n")).unwrap();
    let (content, _) = after.split_once("EOF\n").unwrap();
    content.replace("/tmp/spark-submission", DIRECTORY)
}
