//! Sets how a Spark pod is connected: ports, host network, host aliases and DNS.

use super::{Concern, Problem, SparkPod, annotation_value::Json, entries};
use api::{Embedded, Port, Role, SparkApplication, names::annotation};
use entries::{KeyField, OnClash};
use k8s_openapi::api::core::v1::{ContainerPort, HostAlias, PodDNSConfig};
use serde_json::{Value, json};

pub(super) struct Ports;

impl Concern for Ports {
    const KEY: &'static str = annotation::PORTS;
    type Value = Embedded<Vec<ContainerPort>>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        let ports = &role.pod(&application.spec).ports;
        let entry = |Port { name, protocol, container_port }: &Port| json!({"name": name, "containerPort": container_port, "protocol": protocol});
        (!ports.is_empty()).then(|| Embedded::from(ports.iter().map(entry).collect::<Value>()))
    }

    fn apply(pod: &mut SparkPod, ports: Self::Value) -> Result<(), Problem> {
        add_ports(pod, ports.into_entries())
    }
}

pub(super) fn add_ports(pod: &mut SparkPod, ports: Vec<Value>) -> Result<(), Problem> {
    let key = [KeyField::required("containerPort"), KeyField::defaulted("protocol", "TCP")];
    entries::add(&mut pod.container, "ports", ports, &key, OnClash::Append)
}

pub(super) struct HostNetwork;

impl Concern for HostNetwork {
    const KEY: &'static str = annotation::HOST_NETWORK;
    type Value = Json<bool>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        (role.pod(&application.spec).host_network == Some(true)).then_some(Json(true))
    }

    fn apply(pod: &mut SparkPod, Json(host_network): Self::Value) -> Result<(), Problem> {
        if host_network {
            pod.spec.set("hostNetwork", true);
            // Without this policy, a pod on the host's network cannot resolve Services, and an executor finds its
            // driver by a Service.
            pod.spec.set("dnsPolicy", "ClusterFirstWithHostNet");
        }
        Ok(())
    }
}

pub(super) struct HostAliases;

impl Concern for HostAliases {
    const KEY: &'static str = annotation::HOST_ALIASES;
    type Value = Embedded<Vec<HostAlias>>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        Embedded::list(&role.pod(&application.spec).host_aliases)
    }

    fn apply(pod: &mut SparkPod, aliases: Self::Value) -> Result<(), Problem> {
        entries::add(
            &mut pod.spec,
            "hostAliases",
            aliases.into_entries(),
            &[KeyField::required("ip")],
            OnClash::Append,
        )
    }
}

pub(super) struct DnsConfig;

impl Concern for DnsConfig {
    const KEY: &'static str = annotation::DNS_CONFIG;
    type Value = Embedded<PodDNSConfig>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        role.pod(&application.spec).dns_config.clone()
    }

    fn apply(pod: &mut SparkPod, dns_config: Self::Value) -> Result<(), Problem> {
        entries::replace(&mut pod.spec, "dnsConfig", dns_config.into_json());
        Ok(())
    }
}
