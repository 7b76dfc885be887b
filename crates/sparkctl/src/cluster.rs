//! Chooses the cluster and the namespace as kubectl does.

use super::{failure::of_call, names};
use anyhow::{Context, anyhow, bail};
use api::{Lenient, ScheduledSparkApplication, SparkApplication, SparkConnect};
use clap::Args;
use hyper_util::client::proxy::matcher::Matcher;
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DynamicObject},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use spark_operator_client::patience::{GRACE, in_time};
use std::{env, fmt::Debug, io, net::IpAddr, path::PathBuf};

#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterFlags {
    /// The namespace [default: the context's; `default` for commands that need no cluster]
    #[arg(short, long, global = true, value_parser = names::namespace)]
    namespace: Option<String>,

    /// The kubeconfig to use [default: those that KUBECONFIG lists, else ~/.kube/config, else the pod's service
    /// account]
    #[arg(short, long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
}

/// The namespace if neither the flags, the context nor the manifest name one.
pub(super) const NAMESPACE: &str = "default";

/// A kind of object that the operator manages.
pub(super) trait Kind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

impl Kind for SparkApplication {}
impl Kind for ScheduledSparkApplication {}
impl Kind for SparkConnect {}

/// A cluster, and the namespace that commands use.
#[derive(Clone)]
pub(super) struct Cluster {
    pub client: Client,
    pub namespace: String,
}

impl ClusterFlags {
    /// Returns the cluster that the flags and the kubeconfig name. No request is sent to it yet. With `again`, the
    /// client repeats a request that the API server was too busy to answer; a command that creates objects must not set
    /// `again`, because the repeated request could create a second object.
    ///
    /// # Errors
    ///
    /// When no cluster is configured, or when a context, proxy or file in the configuration cannot be used.
    pub(super) async fn connect(&self, again: bool) -> anyhow::Result<Cluster> {
        let mut config = self.config().await?;
        config.default_retry = again;
        // The API server takes the part before the slash as the manager of the fields that sparkctl writes
        // (`metadata.managedFields`).
        config.headers.push((
            "user-agent".parse().expect("it is the name of a header"),
            concat!("sparkctl/", env!("CARGO_PKG_VERSION")).parse().expect("a version is ASCII"),
        ));
        let by_context = Some(config.default_namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let namespace = self.namespace().or(by_context).unwrap_or(NAMESPACE).to_owned();
        Ok(Cluster { client: Client::try_from(config).map_err(of_call)?, namespace })
    }

    /// Returns the value of --namespace; `None` if the flag is missing or empty.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|namespace| !namespace.is_empty())
    }

    fn context(&self) -> Option<&str> {
        self.context.as_deref().filter(|context| !context.is_empty())
    }

    /// Returns the names of the contexts in the kubeconfig.
    ///
    /// # Errors
    ///
    /// When the kubeconfig cannot be read.
    pub(super) fn contexts(&self) -> Result<Vec<String>, KubeconfigError> {
        Ok(self.kubeconfig()?.as_ref().map(contexts_of).unwrap_or_default())
    }

    /// Returns the merged kubeconfig, if any file exists: files that KUBECONFIG lists may be missing, as for kubectl.
    fn kubeconfig(&self) -> Result<Option<Kubeconfig>, KubeconfigError> {
        let listed = env::var_os("KUBECONFIG").unwrap_or_default();
        let mut files: Vec<_> =
            env::split_paths(&listed).filter(|file| !file.as_os_str().is_empty()).collect();
        if let Some(file) = &self.kubeconfig {
            files = vec![file.clone()];
        } else if files.is_empty() {
            files.extend(env::home_dir().map(|home| home.join(".kube/config")));
        }
        let mut merged = None;
        for file in files {
            match Kubeconfig::read_from(file) {
                Err(KubeconfigError::ReadConfig(error, _))
                    if error.kind() == io::ErrorKind::NotFound && self.kubeconfig.is_none() => {}
                read => {
                    let mut read = read?;
                    // `kubectl config unset current-context` leaves an empty name, which means that there is no current
                    // context.
                    read.current_context.take_if(|name| name.is_empty());
                    merged = Some(merged.unwrap_or_else(Kubeconfig::default).merge(read)?);
                }
            }
        }
        Ok(merged)
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let kubeconfig =
            self.kubeconfig().map_err(|error| anyhow!("the kubeconfig cannot be read: {error}"))?;
        let Some(kubeconfig) = kubeconfig else {
            if let Some(context) = self.context() {
                bail!(
                    "there is no kubeconfig that could have the context `{context}`: set KUBECONFIG, or give --kubeconfig"
                );
            }
            return Config::incluster().map_err(|error| {
                anyhow!("no cluster is configured: set KUBECONFIG, or give --kubeconfig ({error})")
            });
        };
        let contexts = contexts_of(&kubeconfig);
        let proxy = proxy_of(&kubeconfig, self.context());
        let context = self.context().map(str::to_owned);
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| match error {
            KubeconfigError::LoadContext(name) => {
                anyhow!("the kubeconfig has no context `{name}`: {}", choose(&contexts))
            }
            KubeconfigError::CurrentContextNotSet => {
                anyhow!("the kubeconfig has no current context: {}", choose(&contexts))
            }
            error => anyhow!("the kubeconfig cannot be used: {error}"),
        })?;
        let proxy = proxy.or_else(|| chosen_proxy(&config, |name| env::var(name).ok()));
        if let Some(proxy) = &proxy {
            // The message does not contain the proxy, which may have a password in it.
            let scheme = proxy.split("://").next().unwrap_or_default();
            let has_password = proxy.contains('@');
            if !["http", "https", "socks5"].contains(&scheme) || (scheme == "socks5" && has_password) {
                bail!(
                    "the proxy of the kubeconfig or of HTTPS_PROXY cannot be used: it has to be http://, https://, or socks5:// \
                       without a password"
                );
            }
        }
        let proxy = proxy.map(|proxy| proxy.parse()).transpose();
        config.proxy_url = proxy.context("the proxy of the kubeconfig or of HTTPS_PROXY is no URL")?;
        Ok(config)
    }
}

/// Returns advice for a user who has not chosen an existing context.
fn choose(contexts: &[String]) -> String {
    if contexts.is_empty() {
        return "there are none in it: set KUBECONFIG, or give --kubeconfig".to_owned();
    }
    format!("choose one of {} with --context", contexts.join(", "))
}

fn contexts_of(kubeconfig: &Kubeconfig) -> Vec<String> {
    kubeconfig.contexts.iter().map(|context| context.name.clone()).collect()
}

/// Returns the proxy by which the cluster of a context is reached, if the kubeconfig names one.
fn proxy_of(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.or(kubeconfig.current_context.as_deref());
    let context = kubeconfig.contexts.iter().find(|named| Some(&*named.name) == context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|proxy| !proxy.is_empty())
}

/// Returns the proxy that the environment names, by the rules of kubectl: `None` for loopback addresses and for hosts
/// that NO_PROXY lists. kube's own search for a proxy is not used, because it compares NO_PROXY with the host of the
/// proxy instead of the host of the cluster.
fn chosen_proxy(config: &Config, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let either = |name: &str| {
        [name.to_owned(), name.to_lowercase()]
            .iter()
            .filter_map(|name| variable(name))
            .find(|value| !value.is_empty())
    };
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let name = if config.cluster_url.scheme_str() == Some("http") { "HTTP_PROXY" } else { "HTTPS_PROXY" };
    let proxy = either(name).filter(|_| !is_here)?;
    let matcher = Matcher::builder().all("http://proxy").no(either("NO_PROXY").unwrap_or_default()).build();
    matcher.intercept(&config.cluster_url)?;
    // The proxy is returned as it is written, with any user name and password.
    Some(if proxy.contains("://") { proxy } else { format!("http://{proxy}") })
}

/// Returns the object in `guarded`, if it could be parsed.
///
/// # Errors
///
/// The reason for which the object cannot be read.
pub(super) fn readable<K: Kind>(guarded: Lenient<K>) -> anyhow::Result<K> {
    let name = guarded.name_any();
    guarded.0.map_err(|invalid| anyhow!("{} {name} cannot be read: {}", K::kind(&()), invalid.error))
}

impl Cluster {
    /// Returns the same cluster with another namespace.
    pub(super) fn at(&self, namespace: String) -> Self {
        Self { namespace, ..self.clone() }
    }

    /// Returns the API for the objects of a kind in the namespace.
    pub(super) fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the application `name`.
    ///
    /// # Errors
    ///
    /// When the application does not exist, or cannot be read.
    pub(super) async fn application(&self, name: &str) -> anyhow::Result<SparkApplication> {
        self.read(name).await
    }

    /// Returns the object `name` of a kind.
    ///
    /// # Errors
    ///
    /// When the object does not exist, or cannot be read.
    pub(super) async fn read<K: Kind>(&self, name: &str) -> anyhow::Result<K> {
        readable(self.look(name).await.map_err(of_call)?)
    }

    /// Returns the object `name` of a kind, also if it cannot be parsed.
    pub(super) async fn look<K: Kind>(&self, name: &str) -> Result<Lenient<K>, kube::Error> {
        in_time(GRACE, self.api().get(name)).await?
    }

    /// Returns the API for the objects of a kind with all fields that the cluster has stored, also those that this
    /// program does not know.
    pub(super) fn whole<K: Kind>(&self) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<K>(&());
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};
    use std::collections::BTreeMap;

    /// NO_PROXY is compared with the host of the cluster, not with the host of the proxy.
    #[test]
    fn a_proxy_is_chosen_as_kubectl_chooses_it() {
        type Case = (String, BTreeMap<String, String>, Option<String>);
        let cases = include_str!("../../../tests/data/ctl/proxies.json");
        for (cluster, variables, expected) in serde_json::from_str::<Vec<Case>>(cases).unwrap() {
            let config = Config::new(cluster.parse().unwrap());
            let chosen = chosen_proxy(&config, |name| variables.get(name).cloned());
            assert_eq!(chosen, expected, "{cluster} {variables:?}");
        }
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
        let proxy = |context| proxy_of(&kubeconfig, context);
        assert_eq!(proxy(None).as_deref(), Some("http://proxy:1"));
        assert_eq!(proxy(Some("a")), proxy(None));
        assert_eq!((proxy(Some("b")), proxy(Some("none"))), (None, None));
    }
}
