//! Sets how a Spark pod is connected: ports, host network, host aliases and DNS.

use super::{Problem, SparkPod, Step, entries, value};
use api::{Port, names::annotation};
use entries::OnClash;
use k8s_openapi::api::core::v1::{ContainerPort, HostAlias, PodDNSConfig};
use serde_json::{Value, json};

pub(super) const PORTS: Step = Step {
    key: annotation::PORTS,
    asked: |pod, _, _| {
        let entry = |Port { name, protocol, container_port }: &Port| json!({"name": name, "containerPort": container_port, "protocol": protocol});
        value::written_list(&pod.ports.iter().map(entry).collect::<Vec<_>>())
    },
    apply: |pod, text| add_ports(pod, value::list::<ContainerPort>(text)?),
};

pub(super) fn add_ports(pod: &mut SparkPod, ports: Vec<Value>) -> Result<(), Problem> {
    entries::add(&mut pod.container, "ports", ports, &["containerPort", "protocol", "name"], OnClash::Append)
}

pub(super) const HOST_NETWORK: Step = Step {
    key: annotation::HOST_NETWORK,
    asked: |pod, _, _| (pod.host_network == Some(true)).then(|| value::written(&true)),
    apply: |pod, text| {
        if value::typed(text)? {
            pod.spec.set("hostNetwork", true);
            // Without this policy, a pod on the host's network cannot resolve Services, and an executor finds its
            // driver by a Service.
            pod.spec.set("dnsPolicy", "ClusterFirstWithHostNet");
        }
        Ok(())
    },
};

pub(super) const HOST_ALIASES: Step = Step {
    key: annotation::HOST_ALIASES,
    asked: |pod, _, _| value::written_list(&pod.host_aliases),
    apply: |pod, text| {
        entries::add(
            &mut pod.spec,
            "hostAliases",
            value::list::<HostAlias>(text)?,
            &["ip", "hostnames"],
            OnClash::Append,
        )
    },
};

pub(super) const DNS_CONFIG: Step = Step {
    key: annotation::DNS_CONFIG,
    asked: |pod, _, _| pod.dns_config.as_ref().map(value::written),
    apply: |pod, text| entries::replace(&mut pod.spec, "dnsConfig", value::json::<PodDNSConfig>(text)?),
};
