//! Sets how a Spark pod is connected: ports, host network, host aliases and DNS.

use super::{Concern, Problem, SparkPod, annotation_value::Json, entries};
use api::{Embedded, Port, names::annotation};
use entries::OnClash;
use k8s_openapi::api::core::v1::{ContainerPort, HostAlias, PodDNSConfig};
use serde_json::{Value, json};

pub(super) const PORTS: Concern<Embedded<Vec<ContainerPort>>> = Concern {
    key: annotation::PORTS,
    asked: |pod, _, _| {
        let entry = |Port { name, protocol, container_port }: &Port| json!({"name": name, "containerPort": container_port, "protocol": protocol});
        (!pod.ports.is_empty()).then(|| Embedded::from(pod.ports.iter().map(entry).collect::<Value>()))
    },
    apply: |pod, ports| add_ports(pod, ports.into_entries()),
};

pub(super) fn add_ports(pod: &mut SparkPod, ports: Vec<Value>) -> Result<(), Problem> {
    entries::add(&mut pod.container, "ports", ports, &["containerPort", "protocol", "name"], OnClash::Append)
}

pub(super) const HOST_NETWORK: Concern<Json<bool>> = Concern {
    key: annotation::HOST_NETWORK,
    asked: |pod, _, _| (pod.host_network == Some(true)).then_some(Json(true)),
    apply: |pod, Json(host_network)| {
        if host_network {
            pod.spec.set("hostNetwork", true);
            // Without this policy, a pod on the host's network cannot resolve Services, and an executor finds its
            // driver by a Service.
            pod.spec.set("dnsPolicy", "ClusterFirstWithHostNet");
        }
        Ok(())
    },
};

pub(super) const HOST_ALIASES: Concern<Embedded<Vec<HostAlias>>> = Concern {
    key: annotation::HOST_ALIASES,
    asked: |pod, _, _| Embedded::list(&pod.host_aliases),
    apply: |pod, aliases| {
        entries::add(
            &mut pod.spec,
            "hostAliases",
            aliases.into_entries(),
            &["ip", "hostnames"],
            OnClash::Append,
        )
    },
};

pub(super) const DNS_CONFIG: Concern<Embedded<PodDNSConfig>> = Concern {
    key: annotation::DNS_CONFIG,
    asked: |pod, _, _| pod.dns_config.clone(),
    apply: |pod, dns_config| entries::replace(&mut pod.spec, "dnsConfig", dns_config.into_json()),
};
