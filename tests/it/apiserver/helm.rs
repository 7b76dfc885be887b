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
