//! Proves that the operator, `spark-submit`, drivers and executors run under a user id that is in no image, as
//! OpenShift assigns one to each namespace.

use super::{Installed, application, apply, followed, install_alone, is_installed_again, pod};
use crate::apiserver::prelude::*;

/// A user id from a range as OpenShift assigns it: 10,000 ids to each namespace. The group is root's.
const USER: u32 = 1_000_710_000;

#[test]
#[ignore = "needs a node: make test"]
fn operator_submission_driver_and_executors_run_under_any_user_id_alone() {
    let _alone = install_alone();
    let _installed = Installed;
    let user = json!({"runAsUser": USER, "runAsGroup": 0});
    let patch = json!({"spec": {"template": {"spec": {"securityContext": user}}}}).to_string();
    let deployment = "deployment/spark-operator";
    kubectl(&["-n", "spark-operator", "patch", deployment, "--type=merge", "--patch", &patch]);
    is_installed_again();

    // The pods that the operator would create itself run the same programs, but for `spark-submit`.
    let mut example: Value = yaml(Path::new("manifests/examples/spark-pi.yaml"));
    example["metadata"]["name"] = json!("any-user");
    example["metadata"]["annotations"] = json!({"sparkoperator.k8s.io/submitter": "spark-submit"});
    for role in ["driver", "executor"] {
        example["spec"][role]["podSecurityContext"] = user.clone();
        // OpenShift refuses a pod that names a user id of its own.
        let container = example["spec"][role]["securityContext"].as_object_mut().unwrap();
        container.retain(|field, _| !field.starts_with("runAs") || field == "runAsNonRoot");
    }
    apply(&example);
    let states = followed("any-user");
    assert_eq!(states.last().unwrap(), "COMPLETED", "{:#}", application("any-user")["status"]);
    assert_eq!(pod("any-user", "driver")["spec"]["securityContext"]["runAsUser"], USER);
}
