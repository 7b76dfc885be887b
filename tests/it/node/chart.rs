//! Proves that `helm upgrade` turns a release of Kubeflow's chart into one of this chart, that applications continue,
//! and that rollback and uninstallation delete only what they should.

use super::{
    Installed, application, followed, handover::uninstall, install_alone, log, native::python_job, pod, pods,
    state_is, until,
};
use crate::apiserver::{
    helm::{CHART, STAND_IN, helm},
    prelude::*,
};

/// The image that the node has.
const IMAGE: [&str; 2] =
    ["--set=image.registry=localhost,image.repository=spark-operator", "--set=image.tag=dev"];

#[test]
#[ignore = "needs a node: make test"]
fn a_kubeflow_chart_release_is_upgraded_rolled_back_and_uninstalled_alone() {
    let _alone = install_alone();
    let _installed = Installed;
    uninstall();
    kubeflows_definitions();
    helm(&["install", "spark-operator", STAND_IN, "--create-namespace", "--wait"]);
    let driver = running_under_kubeflow("handed-over");
    let uid = driver["metadata"]["uid"].as_str().unwrap();

    // Many users have it so: the whole values file of Kubeflow's chart, with their changes.
    let values = ["--values=tests/data/chart/kubeflow.yaml", "--wait", "--timeout=120s"];
    let upgrade = ["upgrade", "spark-operator", CHART];
    let notes = helm(&[&upgrade[..], &values, &IMAGE].concat());
    assert!(notes.contains("hook.upgradeCrd has no effect"), "{notes}");
    assert!(notes.contains("Drivers run under the service account spark-operator-spark"), "{notes}");
    assert_eq!(deployments(), "spark-operator-controller spark-operator-webhook");
    let only_warned = "webhook.checkExposureRights=true refuses them";
    assert!(notes.contains(only_warned), "{notes}");
    let status = &application("handed-over")["status"];
    assert_eq!(status["applicationState"]["state"], "RUNNING", "{status:#}");
    assert_eq!(status["submissionID"], driver["metadata"]["labels"]["sparkoperator.k8s.io/submission-id"]);
    assert_eq!(drivers_of("handed-over"), [uid]);

    // Helm does not wait until the pods of the stand-in, which answer nothing, have left the Service.
    kubectl(&["-n", "spark-operator", "rollout", "status", "deployment", "spark-operator-webhook"]);
    until("the webhook answers", webhook_answers);
    let mut example: Value = yaml(Path::new("manifests/examples/spark-pi.yaml"));
    example["spec"]["driver"]["serviceAccount"] = json!("spark-operator-spark");
    kubectl_with(&example, &["apply", "-f", "-"]);
    let states = followed("spark-pi");
    assert_eq!(states.last().unwrap(), "COMPLETED", "{states:?}");
    assert!(log("spark-pi-driver").contains("Pi is roughly 3."));

    // Other values: one Deployment for controller and webhook, and another one for the page.
    let one = [
        "--set=webhook.inControllerPods=true,controller.workers=3,page.enable=true",
        "--wait",
        "--timeout=120s",
    ];
    let notes = helm(&[&upgrade[..], &one, &IMAGE].concat());
    assert!(notes.contains(only_warned), "{notes}");
    assert_eq!(deployments(), "spark-operator-controller spark-operator-page");
    let login = "/api/v1/namespaces/spark-operator/services/spark-operator-page:http/proxy/login";
    let login = kubectl(&["get", "--raw", login]);
    assert!(login.contains("Your token for the cluster"), "{login}");
    let controller = ["-n", "spark-operator", "get", "deployment", "spark-operator-controller"];
    let arguments = kubectl(&[&controller[..], &["--output=jsonpath={..containers[0].args}"]].concat());
    assert!(arguments.contains("--controller-threads=3"), "{arguments}");
    until("the webhook of the one Deployment answers", webhook_answers);

    helm(&["rollback", "spark-operator", "1", "--wait", "--timeout=120s"]);
    assert_eq!(deployments(), "spark-operator-controller spark-operator-webhook");
    let image = ["--output=jsonpath={..containers[0].image}"];
    assert_eq!(kubectl(&[&controller[..], &image].concat()), "docker.io/library/busybox:stable");
    assert_eq!(application("handed-over")["status"]["applicationState"]["state"], "RUNNING");
    assert_eq!(drivers_of("handed-over"), [uid]);

    helm(&[&["upgrade", "spark-operator", CHART, "--wait", "--timeout=120s"][..], &IMAGE].concat());
    state_is("handed-over", "RUNNING");
    helm(&["uninstall", "spark-operator", "--wait"]);
    let kinds = "serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,deployments,jobs,services,\
                 networkpolicies,poddisruptionbudgets,mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let label = "--selector=app.kubernetes.io/instance=spark-operator";
    let left = kubectl(&["get", kinds, "--all-namespaces", label, "--output=name"]);
    let left: Vec<_> = left.lines().collect();
    assert_eq!(
        left,
        [
            "serviceaccount/spark-operator-spark",
            "role.rbac.authorization.k8s.io/spark-operator-spark",
            "rolebinding.rbac.authorization.k8s.io/spark-operator-spark",
        ]
    );
    assert_eq!(kubectl(&["get", "crds", "--output=name"]).lines().count(), 3);
    assert_eq!(drivers_of("handed-over"), [uid]);
    kubectl(&["delete", "sparkapp", "handed-over"]);
}

/// Returns the names of the Deployments in the operator's namespace.
fn deployments() -> String {
    kubectl(&["-n", "spark-operator", "get", "deployments", "--output=jsonpath={.items[*].metadata.name}"])
}

/// Returns the uids of the driver pods of an application.
fn drivers_of(name: &str) -> Vec<String> {
    pods(name, "driver").iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

/// Installs definitions which lack the fields of the status that only this operator has, as Kubeflow's do.
fn kubeflows_definitions() {
    for kind in ["sparkapplications", "scheduledsparkapplications"] {
        let file = format!("manifests/crds/sparkoperator.k8s.io_{kind}.yaml");
        let mut definition: Value = yaml(Path::new(&file));
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let fields = definition.pointer_mut(status).unwrap().as_object_mut().unwrap();
        for ours in ["runs", "runOrdinal", "observedGeneration"] {
            fields.remove(ours);
        }
        kubectl_with(&definition, &["create", "-f", "-"]);
    }
}

/// Creates an application with the status and the driver that Kubeflow's operator leaves; returns the driver's pod.
fn running_under_kubeflow(name: &str) -> Value {
    let job = python_job(name, "native-job", "tests/data/node/native/job.py");
    kubectl_with(&job, &["create", "-f", "-"]);
    let uid = application(name)["metadata"]["uid"].take();
    let text = fs::read_to_string(data("node/chart/running-under-kubeflow.yaml")).unwrap();
    let text = text.replace("{name}", name).replace("{uid}", uid.as_str().unwrap());
    let made: Value = serde_saphyr::from_str(&text).unwrap();
    kubectl_with(&made["driver"], &["create", "-f", "-"]);
    kubectl(&["wait", &format!("pod/{name}-driver"), "--for=condition=Ready", "--timeout=120s"]);
    let status = json!({"status": made["status"]}).to_string();
    kubectl(&["patch", "sparkapp", name, "--subresource=status", "--type=merge", "--patch", &status]);
    pod(name, "driver")
}

/// Whether the operator's webhook refuses an application that it does not support.
fn webhook_answers() -> bool {
    let mut refused = python_job("refused", "native-job", "tests/data/node/native/job.py");
    refused["spec"]["mode"] = json!("client");
    try_kubectl_with(&refused, &["create", "--dry-run=server", "-f", "-"])
        .is_err_and(|why| why.contains("spec.mode"))
}
