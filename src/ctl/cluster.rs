//! Which cluster and which namespace? As kubectl chooses them.

use super::{completion, failure::of_call};
use crate::api::{ScheduledSparkApplication, SparkApplication};
use anyhow::{anyhow, bail};
use clap::Args;
use clap_complete::ArgValueCompleter;
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::{DeserializeGuard, NamespaceResourceScope},
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, path::PathBuf};

#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterFlags {
    /// The namespace [default: the context's; what is rendered is in `default`]
    #[arg(short, long, global = true, add = ArgValueCompleter::new(completion::namespaces))]
    pub namespace: Option<String>,

    /// The kubeconfig to use [default: those that KUBECONFIG lists, else ~/.kube/config, else the pod's service
    /// account]
    #[arg(short, long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME", add = ArgValueCompleter::new(completion::contexts))]
    context: Option<String>,
}

/// A kind that the operator drives.
pub(super) trait Kind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

impl Kind for SparkApplication {}
impl Kind for ScheduledSparkApplication {}

/// A cluster, and the namespace that is meant where none is said.
pub(super) struct Cluster {
    pub client: Client,
    pub namespace: String,
}

impl ClusterFlags {
    /// The cluster that the flags and the kubeconfig mean. Nothing is asked of it yet.
    ///
    /// # Errors
    ///
    /// When there is none, or not as it is called.
    pub(super) async fn connect(&self) -> anyhow::Result<Cluster> {
        let config = self.config().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Cluster { client: Client::try_from(config).map_err(of_call)?, namespace })
    }

    /// The contexts that there are.
    ///
    /// # Errors
    ///
    /// When there is no kubeconfig that can be read.
    pub(super) fn contexts(&self) -> Result<Vec<String>, KubeconfigError> {
        Ok(names(&self.kubeconfig()?))
    }

    fn kubeconfig(&self) -> Result<Kubeconfig, KubeconfigError> {
        match &self.kubeconfig {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        }
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let kubeconfig = match self.kubeconfig() {
            Ok(kubeconfig) => kubeconfig,
            Err(error) if self.kubeconfig.is_some() || self.context.is_some() => {
                bail!("the kubeconfig cannot be read: {error}")
            }
            Err(error) => {
                return Config::incluster().map_err(|_| {
                    anyhow!("no cluster is configured: set KUBECONFIG, or give --kubeconfig ({error})")
                });
            }
        };
        let contexts = names(&kubeconfig);
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| match error {
            KubeconfigError::LoadContext(name) => {
                anyhow!("the kubeconfig has no context `{name}`: choose one of {}", contexts.join(", "))
            }
            KubeconfigError::CurrentContextNotSet => {
                anyhow!(
                    "the kubeconfig has no current context: choose one of {} with --context",
                    contexts.join(", ")
                )
            }
            error => anyhow!("the kubeconfig cannot be used: {error}"),
        })
    }
}

fn names(kubeconfig: &Kubeconfig) -> Vec<String> {
    kubeconfig.contexts.iter().map(|context| context.name.clone()).collect()
}

/// An application that the cluster has, whether or not it can be one.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn readable(guarded: DeserializeGuard<SparkApplication>) -> anyhow::Result<SparkApplication> {
    let name = guarded.name_any();
    guarded.0.map_err(|invalid| anyhow!("SparkApplication {name} cannot be read: {}", invalid.error))
}

impl Cluster {
    /// The objects of a kind in the namespace.
    pub(super) fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// An application.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    pub(super) async fn application(&self, name: &str) -> anyhow::Result<SparkApplication> {
        readable(self.api::<DeserializeGuard<SparkApplication>>().get(name).await.map_err(of_call)?)
    }

    /// The objects of a kind as the cluster has them: with every field, known to us or not.
    pub(super) fn whole<K: Kind>(&self) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<K>(&());
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }
}
