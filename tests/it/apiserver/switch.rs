//! Proves that releases of Kubeflow's chart can be upgraded to this chart with values that users of Kubeflow's chart
//! have published, and that an application that runs meanwhile is neither run again nor abandoned.
//!
//! The Job of the chart's hook needs a node: `node::chart` runs it.

use super::{
    chart::{arguments, arguments_of, program, rendered, settings, template, values},
    helm::{CHART, Release, STAND_IN, deployments, try_helm},
    lifecycle::takeover,
    rights::no_other_installation,
};
use crate::apiserver::prelude::*;
use kube::Resource;

const RELEASE: &str = "switched";
/// Overrides the names in the values, because one of the sets uses names that objects of these tests have.
const NAMES: &str = "--set=fullnameOverride=switched";
const CONTROLLER: &str = "switched-controller";

/// The sets that are refused, because they enable something by a key of chart 1 or at the wrong place, where it has no
/// effect; a part of the error, and the values that enable it.
const REFUSED: [(&str, &str, &str); 2] = [
    (
        "01",
        "batchScheduler: write controller.batchScheduler instead",
        "batchScheduler.enable=false,controller.batchScheduler.enable=true,controller.batchScheduler.default=yunikorn",
    ),
    (
        "22",
        "enableBatchScheduler: write controller.batchScheduler instead",
        "enableBatchScheduler=false,controller.batchScheduler.enable=true",
    ),
];

/// Returns the names of the sets of values that users of Kubeflow's chart publish.
pub(crate) fn sets() -> Vec<String> {
    let files = fs::read_dir(data("chart/public")).unwrap().map(|file| file.unwrap().path());
    let mut sets: Vec<_> = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    sets.sort_unstable();
    sets
}

/// Returns why a set is refused, and what is set instead.
fn refusal(set: &str) -> Option<(&'static str, &'static str)> {
    REFUSED.iter().find(|(refused, ..)| *refused == set).map(|(_, why, instead)| (*why, *instead))
}

#[test]
#[ignore = "needs helm: make test"]
fn public_values_are_accepted_or_refused_with_the_key_to_use_instead() {
    for set in sets() {
        let values = values(&format!("public/{set}"));
        let mut given = vec![values.as_str()];
        if let Some((why, instead)) = refusal(&set) {
            let refused = template(RELEASE, &given).unwrap_err();
            assert!(refused.contains(why), "{set}: {refused}");
            given.extend(["--set", instead]);
        }
        let arguments = arguments(&rendered(RELEASE, &given));
        assert_eq!(arguments.len(), 2, "{set}");
        for (_, arguments) in arguments {
            settings(&arguments);
        }
    }
}

/// The sets have all namespaces and a misplaced key (01), service accounts that others create (03), overridden names
/// (10), and Ingresses with a PodMonitor (28). `make soak` has all sets; keys of chart 1 and images of forks are in
/// `chart`.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_application_keeps_running_during_an_upgrade_with_public_values() {
    each_takes_over(&["01", "03", "10", "28"]).await;
}

/// Upgrades a release of Kubeflow's chart to this chart with each of these sets. An application that runs then is followed
/// to its end by the controller that the upgrade installs, with the flags and the rights that the upgrade gives it.
pub(crate) async fn each_takes_over(sets: &[&str]) {
    let namespace = Namespace::new("switched").await;
    let _no_other = no_other_installation();
    pod_monitors_are_known().await;
    for set in sets {
        let file = format!("public/{set}");
        let chosen: Value = yaml(&data(&format!("chart/{file}.yaml")));
        let place = match chosen["spark"]["jobNamespaces"].as_array() {
            None => "default",
            Some(names) => {
                let last = names.last().and_then(Value::as_str);
                last.filter(|name| !name.is_empty()).unwrap_or(namespace.name)
            }
        };
        let running = Running::begin(&format!("set-{set}"), place);
        let values = values(&file);
        let _release = Release::begin(RELEASE, STAND_IN, &[NAMES, &values]);
        let mut given = vec![values.as_str()];
        if let Some((why, instead)) = refusal(set) {
            let before = deployments(RELEASE);
            let refused = upgraded(&given).unwrap_err();
            assert!(refused.contains(why), "{set}: {refused}");
            assert_eq!(deployments(RELEASE), before, "{set}");
            given.extend(["--set", instead]);
        }
        let notes = upgraded(&given).unwrap_or_else(|why| panic!("{set}: {why}"));
        assert!(notes.contains("webhook.checkExposureRights=true refuses them"), "{set}: {notes}");
        let deployments = deployments(RELEASE);
        let is_it = |deployment: &&Value| deployment["metadata"]["name"] == CONTROLLER;
        let controller = deployments.iter().find(is_it).expect(set);
        let image = &controller["spec"]["template"]["spec"]["containers"][0]["image"];
        let is_ours = image.as_str().unwrap().ends_with(concat!(":", env!("CARGO_PKG_VERSION")));
        assert!(is_ours, "{set}: {image}");
        let _operator = program(controller, &namespace, CONTROLLER).spawn();
        running.is_followed_to_its_end().await;
    }
    calls::delete(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POD_MONITORS}"));
}

/// Kubeflow's operator does not check whether a user may expose a driver. The chart looks up the controller's
/// Deployment of the upgraded release in the cluster.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_upgraded_kubeflow_release_only_warns_of_missing_exposure_rights() {
    let _alone = Namespace::new("switched").await;
    let _no_other = no_other_installation();
    let checks = || {
        let arguments: Vec<_> = deployments(RELEASE).iter().flat_map(arguments_of).collect();
        let checks = arguments.into_iter().filter(|argument| argument.contains("exposure-rights"));
        checks.collect::<Vec<_>>()
    };
    let warns = ["--check-exposure-rights=warn"];
    let none: [&str; 0] = [];
    {
        let _release = Release::begin(RELEASE, STAND_IN, &[NAMES]);
        for (value, expected) in [
            ("controller.workers=3", &warns[..]),
            ("webhook.inControllerPods=true,controller.deploymentAnnotations.a=b", &warns[..]),
            ("webhook.checkExposureRights=true", &none[..]),
        ] {
            upgraded(&["--set", value]).unwrap();
            assert_eq!(checks(), expected, "{value}");
        }
    }
    let _release = Release::begin(RELEASE, CHART, &[NAMES]);
    assert_eq!(checks(), none);
    upgraded(&[]).unwrap();
    assert_eq!(checks(), none);
}

/// Upgrades the release to this chart; returns the notes, or why Helm refuses.
fn upgraded(arguments: &[&str]) -> Result<String, String> {
    let upgrade = ["upgrade", RELEASE, CHART, "--no-hooks", NAMES];
    try_helm(&[&upgrade[..], arguments].concat())
}

const POD_MONITORS: &str = "podmonitors.monitoring.coreos.com";

/// Installs a CRD of PodMonitors, a kind of the Prometheus operator that some sets use.
async fn pod_monitors_are_known() {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": POD_MONITORS},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"kind": "PodMonitor", "plural": "podmonitors"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    calls::apply(&definition, None);
    eventually("PodMonitors are known", async || {
        let known = kubectl(&["api-resources", "--api-group=monitoring.coreos.com", "--output=name"]);
        seen(known.contains(POD_MONITORS), known)
    })
    .await;
}

/// An application that Kubeflow's operator has submitted, and whose driver runs. Deleted when this value is dropped.
struct Running {
    name: String,
    namespace: String,
    /// The paths in the API of the application and of its driver.
    application: String,
    driver: String,
    /// The uid of the driver.
    uid: Value,
}

impl Running {
    fn begin(name: &str, namespace: &str) -> Self {
        calls::make_namespace(namespace);
        calls::apply(&application(name), Some(namespace));
        let path = format!("{}/{name}", SparkApplication::url_path(&(), Some(namespace)));
        let status = takeover::status_in("RUNNING", name);
        calls::merge(&format!("{path}/status"), &json!({"status": status}));
        calls::apply(&takeover::driver_of(&calls::get(&path).expect(name)), Some(namespace));
        let driver = format!("{}/{name}-driver", Pod::url_path(&(), Some(namespace)));
        let pod = calls::get(&driver).expect(name);
        calls::merge(&format!("{driver}/status"), &json!({"status": kubelet::running(&pod["spec"])}));
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            application: path,
            driver,
            uid: pod["metadata"]["uid"].clone(),
        }
    }

    /// Waits until an operator has taken the application over, and lets the driver end; asserts that the run of Kubeflow's
    /// operator was the only one.
    async fn is_followed_to_its_end(&self) {
        let taken = self.becomes("taken over", |status| status["observedGeneration"] == 1).await;
        assert_eq!(taken["applicationState"]["state"], "RUNNING", "{}", self.name);
        let pod = calls::get(&self.driver).expect(&self.name);
        let ended = kubelet::ended(&pod["spec"], 0);
        calls::merge(&format!("{}/status", self.driver), &json!({"status": ended}));
        let is_completed = |status: &Value| status["applicationState"]["state"] == "COMPLETED";
        let completed = self.becomes("COMPLETED", is_completed).await;
        assert_eq!(completed["submissionID"], takeover::ID, "{}", self.name);
        let counts = [&completed["executionAttempts"], &completed["submissionAttempts"]];
        assert_eq!(counts, [1, 1], "{}", self.name);
        let pods = Pod::url_path(&(), Some(self.namespace.as_str()));
        let pods = calls::get(&format!("{pods}?labelSelector={}", self.label())).expect("a list");
        let pods = pods["items"].as_array().unwrap().iter();
        assert_eq!(pods.map(|pod| &pod["metadata"]["uid"]).collect::<Vec<_>>(), [&self.uid], "{}", self.name);
    }

    /// Waits until the status of the application fulfils `condition`, and returns the status.
    async fn becomes(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{} is {what}", self.name), async || {
            let status = calls::get(&self.application).expect(&self.name)["status"].take();
            seen(condition(&status), &status).map(|()| status)
        })
        .await
    }

    /// Returns the label of everything that belongs to the application.
    fn label(&self) -> String {
        format!("{}={}", label::APP_NAME, self.name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        calls::delete(&self.application);
        calls::delete_selected::<Pod>(&self.namespace, &self.label());
        calls::delete_selected::<Service>(&self.namespace, &self.label());
        calls::delete_selected::<Ingress>(&self.namespace, &self.label());
    }
}
