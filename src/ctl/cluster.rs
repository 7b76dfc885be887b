//! Which cluster and which namespace? As kubectl chooses them.

use super::{completion, failure::of_call};
use crate::api::{ScheduledSparkApplication, SparkApplication};
use anyhow::{anyhow, bail};
use clap::Args;
use clap_complete::ArgValueCompleter;
use hyper_util::client::proxy::matcher::Matcher;
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::{DeserializeGuard, NamespaceResourceScope},
};
use serde::de::DeserializeOwned;
use std::{env, fmt::Debug, net::IpAddr, path::PathBuf};

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
        let names_proxy = names_proxy(&kubeconfig, self.context.as_deref());
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| match error {
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
        })?;
        if !names_proxy {
            choose_proxy(&mut config, |name| env::var(name).ok());
        }
        Ok(config)
    }
}

fn names(kubeconfig: &Kubeconfig) -> Vec<String> {
    kubeconfig.contexts.iter().map(|context| context.name.clone()).collect()
}

/// Whether the kubeconfig says by which proxy the cluster of a context is reached.
fn names_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> bool {
    let context = context.or(kubeconfig.current_context.as_deref());
    let contexts = kubeconfig.contexts.iter().filter(|named| Some(&*named.name) == context);
    let cluster = contexts.filter_map(|named| named.context.as_ref()).map(|context| &context.cluster).next();
    let mut clusters = kubeconfig.clusters.iter().filter(|named| Some(&named.name) == cluster);
    let proxy = clusters
        .next()
        .and_then(|named| named.cluster.as_ref())
        .and_then(|cluster| cluster.proxy_url.as_ref());
    proxy.is_some_and(|proxy| !proxy.is_empty())
}

/// Chooses a proxy by the environment, as kubectl does: none for this machine itself and for what NO_PROXY has. kube looks in
/// NO_PROXY for the proxy, not for the cluster.
fn choose_proxy(config: &mut Config, variable: impl Fn(&str) -> Option<String>) {
    let either = |name: &str| {
        [name.to_owned(), name.to_lowercase()]
            .iter()
            .filter_map(|name| variable(name))
            .find(|value| !value.is_empty())
    };
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let [http, https, no] =
        ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].map(|name| either(name).unwrap_or_default());
    let proxies = Matcher::builder().http(http).https(https).no(no).build();
    let chosen = proxies.intercept(&config.cluster_url).filter(|_| !is_here);
    config.proxy_url = chosen.map(|proxy| proxy.uri().clone());
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_proxy_is_chosen_as_kubectl_chooses_it() {
        let chosen = |cluster: &str, variables: &[(&str, &str)]| {
            let mut config = Config::new(cluster.parse().unwrap());
            choose_proxy(&mut config, |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            });
            config.proxy_url.map(|proxy| proxy.to_string())
        };
        let cluster = "https://api.example.com:6443";
        let proxy = ("HTTPS_PROXY", "http://proxy.corp.example.com:3128");
        let through = Some("http://proxy.corp.example.com:3128/".to_owned());
        assert_eq!(chosen(cluster, &[]), None);
        assert_eq!(chosen(cluster, &[proxy]), through);
        assert_eq!(chosen(cluster, &[("https_proxy", "proxy.corp.example.com:3128")]), through);
        // What the proxy itself is called does not matter.
        assert_eq!(chosen(cluster, &[proxy, ("NO_PROXY", ".corp.example.com")]), through);
        for no in ["api.example.com", ".example.com", "example.com", "*", "10.0.0.0/8,example.com"] {
            assert_eq!(chosen(cluster, &[proxy, ("NO_PROXY", no)]), None, "{no}");
        }
        assert_eq!(chosen("https://10.1.2.3", &[proxy, ("no_proxy", "10.0.0.0/8")]), None);
        for here in ["https://localhost:6443", "https://127.0.0.1:6443", "https://[::1]:6443"] {
            assert_eq!(chosen(here, &[proxy]), None, "{here}");
        }
        assert_eq!(chosen("http://api.example.com", &[proxy]), None);
    }

    #[test]
    fn the_proxy_of_a_kubeconfig_is_that_of_the_contexts_cluster() {
        let kubeconfig: Kubeconfig = from_value(json!({
            "clusters": [
                {"name": "far", "cluster": {"server": "https://far", "proxy-url": "http://proxy:1"}},
                {"name": "near", "cluster": {"server": "https://near"}},
            ],
            "contexts": [
                {"name": "a", "context": {"cluster": "far", "user": "me"}},
                {"name": "b", "context": {"cluster": "near", "user": "me"}},
            ],
            "current-context": "a",
        }))
        .unwrap();
        assert!(names_proxy(&kubeconfig, None) && names_proxy(&kubeconfig, Some("a")));
        assert!(!names_proxy(&kubeconfig, Some("b")) && !names_proxy(&kubeconfig, Some("none")));
    }
}
