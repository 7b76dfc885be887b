//! `sparkctl diff`: shows how the applications and SparkConnects of a file differ from those of a cluster, and what an edit
//! would do to their runs and servers.

use super::{
    cluster::Cluster,
    failure::Failure,
    manifest::{self, Checks, Found, Manifest, Subject},
    show::{NONE, columns, name, print},
    yaml::line,
};
use api::{ScheduledSparkApplication, SparkApplication, SparkConnect, excerpt};
use clap::Args;
use kube::{Resource, ResourceExt};
use serde_json::Value;
use spark_operator_client::connect_summary;
use validation::{Edit, differences};

#[derive(Debug, Args)]
#[command(after_help = "\
The file counts as the whole spec, as for `kubectl replace` and Argo CD; `kubectl apply` keeps fields that other field managers have written. \
Schedules are skipped: an edit of a schedule ends no run.

Example: sparkctl diff app.yaml")]
pub(super) struct Flags {
    #[command(flatten)]
    manifest: Manifest,
}

/// The maximum length of a value in the table, in bytes.
const LONGEST_VALUE: usize = 60;

pub(super) async fn diff(cluster: &Cluster, flags: &Flags, namespace: Option<&str>) -> anyhow::Result<()> {
    let found = manifest::of_file(flags.manifest.file(), namespace, Checks::AsStored)?;
    let found = manifest::all(found.into_iter())?;
    let is_compared = |found: &&Found| found.object["kind"] != *ScheduledSparkApplication::kind(&());
    for found in found.iter().filter(is_compared) {
        found.check()?;
        let written = found.object["metadata"]["namespace"].as_str().filter(|written| !written.is_empty());
        let place = cluster.at(written.unwrap_or(&cluster.namespace).to_owned());
        let compared = match &found.subject {
            Subject::Application(new) => {
                place.application(&new.name_any()).await.and_then(|old| of_application(&old, new))
            }
            Subject::Connect(new) => {
                place.read(&new.name_any()).await.and_then(|old: SparkConnect| of_connect(&old, new))
            }
        };
        let text = match compared {
            Err(error) if matches!(error.downcast_ref(), Some(Failure::NotFound(_))) => {
                format!("{} would be created\n", found.title)
            }
            compared => compared?,
        };
        print(&text)?;
    }
    Ok(())
}

/// Returns a table of the fields in which two versions of an application differ.
fn of_application(old: &SparkApplication, new: &SparkApplication) -> anyhow::Result<String> {
    let title = format!("SparkApplication {}, {}", old.name_any(), name(old.state()));
    compared(&title, &differences(old, new))
}

/// Returns a table of the fields in which two versions of a SparkConnect differ.
fn of_connect(old: &SparkConnect, new: &SparkConnect) -> anyhow::Result<String> {
    let title = format!("SparkConnect {}, {}", old.name_any(), connect_summary::state(old));
    compared(&title, &connect::differences(old, new))
}

fn compared(title: &str, edits: &[Edit]) -> anyhow::Result<String> {
    if edits.is_empty() {
        return Ok(format!("{title}: the same\n"));
    }
    let header = ["FIELD", "NOW", "THEN", "EFFECT"].map(str::to_owned).to_vec();
    let rows = edits
        .iter()
        .map(|edit| vec![line(&edit.field), value(&edit.old), value(&edit.new), edit.effect.to_string()]);
    let table = columns(&std::iter::once(header).chain(rows).collect::<Vec<_>>())?;
    Ok(format!("{title}\n\n{table}"))
}

fn value(value: &Value) -> String {
    let text = match value {
        Value::Null => NONE.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    excerpt::beginning(line(&text), LONGEST_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn each_field_that_differs_is_shown_with_its_effect() {
        let application = |spec: Value| -> SparkApplication {
            let status = json!({"applicationState": {"state": "RUNNING"}, "submissionID": "1"});
            from_value(json!({"metadata": {"name": "pi"}, "spec": spec, "status": status})).unwrap()
        };
        let old = application(json!({"driver": {"cores": 1}}));
        let new = application(
            json!({"driver": {"cores": 2}, "timeToLiveSeconds": 3600, "volumes": [{"name": "a"}]}),
        );
        let table = include_str!("../../../tests/data/ctl/diff.txt");
        assert_eq!(of_application(&old, &new).unwrap(), table);
        assert_eq!(of_application(&old, &old).unwrap(), "SparkApplication pi, RUNNING: the same\n");
    }
    #[test]
    fn an_edit_that_ends_the_sessions_of_a_server_has_this_effect() {
        let connect = |executor: Value, status: Value| -> SparkConnect {
            let spec = json!({"sparkVersion": "4.0.1", "server": {}, "executor": executor});
            from_value(json!({"metadata": {"name": "notebook"}, "spec": spec, "status": status})).unwrap()
        };
        let status = json!({"state": "Ready", "server": {"podName": "notebook-server"}});
        let old = connect(json!({"instances": 1}), status);
        let new = connect(json!({"instances": 2}), Value::Null);
        let table = include_str!("../../../tests/data/ctl/connect-diff.txt");
        assert_eq!(of_connect(&old, &new).unwrap(), table);
        assert_eq!(of_connect(&old, &old).unwrap(), "SparkConnect notebook, Ready: the same\n");
    }
}
