//! The flags about batch schedulers, which place the pods of an application as one group.

use super::ExtensionFlags;
use crate::settings::values::checked;
use anyhow::anyhow;
use batch_schedulers::BatchSchedulers;
use clap::Args;
use plan::extension::Extension;
use std::sync::Arc;

/// The batch schedulers to which applications are handed over.
#[derive(Clone, Debug, Args)]
pub struct BatchSchedulerSettings {
    /// Whether applications are handed over to the batch scheduler that they name (batchScheduler): `volcano`,
    /// `yunikorn`, one of --kube-scheduler-names, or `kubernetes` with --enable-kubernetes-gangs. Without this, the name
    /// only becomes the schedulerName of their pods
    #[arg(long)]
    pub enable_batch_scheduler: bool,

    /// The kube-schedulers with the coscheduling plugin of scheduler-plugins that applications may name, with commas
    /// between them; without effect unless --enable-batch-scheduler is set
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = scheduler)]
    pub kube_scheduler_names: Vec<String>,

    /// Whether applications may name `kubernetes`: the cluster's own scheduler places driver and executors as a gang,
    /// for which the cluster needs the feature gate GenericWorkload; without effect unless --enable-batch-scheduler is set
    #[arg(long)]
    pub enable_kubernetes_gangs: bool,

    /// The batch scheduler of applications that name none; without effect unless --enable-batch-scheduler is set [default: none]
    #[arg(long, value_name = "NAME", default_value = "", value_parser = scheduler, hide_default_value = true)]
    pub default_batch_scheduler: String,
}

impl BatchSchedulerSettings {
    fn kube_scheduler_names(&self) -> impl Iterator<Item = &String> {
        self.kube_scheduler_names.iter().filter(|name| !name.is_empty())
    }
}

impl ExtensionFlags for BatchSchedulerSettings {
    fn extension(&self) -> anyhow::Result<Arc<dyn Extension>> {
        if !self.enable_batch_scheduler {
            return Ok(Arc::new(BatchSchedulers::off()));
        }
        let default = Some(&self.default_batch_scheduler).filter(|name| !name.is_empty()).cloned();
        let names = self.kube_scheduler_names().cloned().collect();
        let schedulers = BatchSchedulers::new(names, self.enable_kubernetes_gangs, default);
        Ok(Arc::new(schedulers.map_err(|why| anyhow!("--default-batch-scheduler: {why}"))?))
    }

    fn is_on(&self) -> bool {
        self.enable_batch_scheduler
    }

    fn roles(&self) -> Vec<&'static str> {
        let has_others = self.kube_scheduler_names().next().is_some();
        let all = [
            (true, include_str!("../../../manifests/rbac/batch-scheduler.yaml")),
            (has_others, include_str!("../../../manifests/rbac/coscheduling.yaml")),
            (self.enable_kubernetes_gangs, include_str!("../../../manifests/rbac/kubernetes-gangs.yaml")),
        ];
        let is_needed = |(is_needed, _): &(bool, _)| self.enable_batch_scheduler && *is_needed;
        all.into_iter().filter(is_needed).map(|(_, role)| role).collect()
    }
}

/// Parses the name of a scheduler, or an empty text, which the chart of Kubeflow's operator writes as `""`, quotes
/// included.
fn scheduler(text: &str) -> Result<String, String> {
    let name = text.trim().trim_matches('"');
    let is_name = name.is_empty() || validation::is_object_name(name);
    checked(name, is_name, "is not the name of a scheduler (try `volcano`)")
}
