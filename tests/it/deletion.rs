//! Tests what the operator does with the pods of an application that is being deleted or no longer exists, or that the
//! operator stops managing. The cases are in `tests/data/deletion`.

use crate::{extensions::extensions, prelude::*};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::{
    Action, PodPatch,
    lifecycle::{after_deletion, leave},
};
use serde_json::from_value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    there: Option<Value>,
    /// Whether the operator stops managing the application.
    #[serde(default)]
    leaves: bool,
    pods: Vec<Value>,
    done: Vec<String>,
}

#[test]
fn pods_are_deleted_or_kept_as_their_case_says() {
    compare_actions("deletion/pods.yaml");
}

#[test]
#[cfg_attr(not(feature = "batch-schedulers"), ignore = "needs batch schedulers")]
fn pods_of_gangs_are_deleted_or_kept_as_their_case_says() {
    compare_actions("deletion/gangs.yaml");
}

fn compare_actions(file: &str) {
    let policy = Policy { extensions: extensions(false), ..Policy::new("k8s://https://10.0.0.1:443") };
    for Case { case, there, leaves, pods, done } in yaml::<Vec<Case>>(&data(file)) {
        let pods: Vec<_> = pods.into_iter().map(pod).collect();
        let there: Option<ObjectMeta> = there.map(|there| from_value(there).unwrap());
        let actions = if leaves {
            leave(&pods, "old", &policy)
        } else {
            after_deletion(&pods, there.as_ref(), &policy)
        };
        assert_eq!(actions.into_iter().map(shown).collect::<Vec<_>>(), done, "{case}");
    }
}

fn shown(action: Action) -> String {
    match action {
        Action::DeletePod { name, uid } if name != "pi-driver" => format!("delete {name} of {uid}"),
        Action::DeletePod { uid, .. } => format!("delete driver of {uid}"),
        Action::ProtectDriver { uid, protect: false, .. } => format!("release driver of {uid}"),
        Action::PatchPod { name, patch: PodPatch::Spec(_), .. } => format!("ungate {name}"),
        other => panic!("{other:?}"),
    }
}

/// Returns the pod that a case describes. It has the same uid as its application.
fn pod(mut written: Value) -> PodSummary {
    let fields = written.as_object_mut().unwrap();
    let mut kinds = ["driver", "executor", "placeholder"].into_iter();
    let (kind, uid) = kinds.find_map(|kind| Some((kind, fields.remove(kind)?))).unwrap();
    let run = format!("run-of-{}", uid.as_str().unwrap());
    let owner = json!({"kind": "SparkApplication", "name": "pi", "uid": uid});
    let driver = json!({"kind": "Pod", "name": "pi-driver", "uid": uid});
    let particulars = json!({"role": "placeholder", "placement": {"node": "n1"}});
    let mut pod = match kind {
        "driver" => json!({"name": "pi-driver", "role": kind, "submissionId": run, "controller": owner}),
        "executor" => json!({"name": "exec", "role": kind, "submissionId": run, "controller": driver}),
        _ => json!({"name": "placeholder", "controller": owner, "particulars": particulars}),
    };
    (pod["uid"], pod["application"]) = (uid, json!("pi"));
    json_patch::merge(&mut pod, &written);
    from_value(pod).unwrap()
}
