//! Runs Helm, which is on the PATH of `cluster exec`, in the operator's namespace.

use crate::{apiserver::prelude::*, program};

pub(crate) const CHART: &str = "manifests/helm/spark-operator";
/// A chart with the objects of Kubeflow's chart.
pub(crate) const STAND_IN: &str = "tests/data/chart/stand-in";

/// Returns what a command of Helm prints; panics if it fails.
pub(crate) fn helm(arguments: &[&str]) -> String {
    try_helm(arguments).unwrap_or_else(|said| {
        let there = kubectl(&["--namespace", NAMESPACE, "describe", "pods,jobs"]);
        panic!("helm {arguments:?}: {said}\n{there}");
    })
}

/// Returns what a command of Helm prints, or its error.
pub(crate) fn try_helm(arguments: &[&str]) -> Result<String, String> {
    program::said(program::run("helm", &[arguments, &["--namespace", NAMESPACE]].concat(), ""))
}

/// A release of a chart, which is uninstalled when this value is dropped.
pub(super) struct Release(&'static str);

impl Release {
    pub(super) fn begin(name: &'static str, chart: &str, arguments: &[&str]) -> Self {
        let install = ["install", name, chart, "--no-hooks", "--skip-crds"];
        helm(&[&install[..], arguments].concat());
        Self(name)
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        helm(&["uninstall", self.0, "--no-hooks"]);
    }
}

/// Returns the Deployments of a release.
pub(super) fn deployments(release: &str) -> Vec<Value> {
    let of_release = format!("labelSelector=app.kubernetes.io/instance={release}");
    let list = calls::get(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments?{of_release}"));
    list.expect("a list")["items"].as_array().unwrap().clone()
}
