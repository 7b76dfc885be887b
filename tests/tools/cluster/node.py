"""Starts the cluster's one node, and waits until it can run pods."""

import json
import os
import pathlib
import subprocess

import control_plane
import image_store
import network
import unpacked_images
from layout import Cluster
from processes import start, wait_until
from programs import program

CNI_PLUGINS = "/usr/lib/cni"  # where Debian puts them


def node_name(cluster: Cluster) -> str:
    return f"{cluster.name}-node"


def start_containerd(cluster: Cluster) -> None:
    folder = cluster.folder
    networks = folder / "cni"
    networks.mkdir()
    (networks / "10-pods.conflist").write_text(json.dumps({
        "cniVersion": "0.4.0",
        "name": cluster.namespace,
        "plugins": [{
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "hairpinMode": True,  # A pod may reach itself through a service.
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": str(folder / "cni-addresses"),
                "ranges": [[{"subnet": network.POD_SUBNET}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    }))
    text = json.dumps  # A JSON string is a TOML string.
    (folder / "containerd.toml").write_text(f"""
version = 2
root = {text(str(cluster.containerd_root))}
state = {text(str(folder / "run"))}
# Missing file systems would only cause warnings; `opt` would create a folder /opt/containerd.
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[grpc]
address = {text(str(cluster.containerd_socket))}
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = {text(image_store.PAUSE)}
disable_apparmor = true
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {text(CNI_PLUGINS)}
conf_dir = {text(str(networks))}
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = {text(str(folder / "runc"))}
""")
    if len(str(cluster.containerd_socket)) > 100:
        raise SystemExit(f"{folder} is too long a path for a Unix socket: set XDG_CACHE_HOME to a shorter one")
    unpacked_images.begin_with(cluster)
    start(cluster, "containerd", "containerd", "--config", folder / "containerd.toml")


def wait_for_containerd(cluster: Cluster) -> None:
    wait_until(cluster, "containerd", lambda: image_store.ctr(cluster, "version").returncode == 0, "containerd answers")


def load_base_images(cluster: Cluster) -> None:
    image_store.load(cluster, image_store.base_images())


def start_node(cluster: Cluster, kubernetes: str) -> None:
    """Starts kubelet, kube-proxy and CoreDNS, all of which need containerd or the API server."""
    folder = cluster.folder
    write(folder / "kubelet.json", {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        # Reachable only from inside the namespace, where everybody is the administrator anyway.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{cluster.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cluster.cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        # The machine's disk and memory are shared with builds; only a really full one evicts.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",
        "clusterDNS": [network.NODE_ADDRESS],
        "clusterDomain": "cluster.local",
        "podLogsDir": str(folder / "pod-logs"),
        "volumePluginDir": str(folder / "volume-plugins"),
        "makeIPTablesUtilChains": False,
    })
    start(
        cluster, "kubelet", program("kubelet", kubernetes),
        "--config", folder / "kubelet.json", "--kubeconfig", cluster.kubeconfig,
        "--root-dir", folder / "kubelet", "--cert-dir", folder / "kubelet-pki",
        "--hostname-override", node_name(cluster), "--node-ip", network.NODE_ADDRESS,
    )
    write(folder / "kube-proxy.json", {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "clusterCIDR": network.POD_SUBNET,
        "hostnameOverride": node_name(cluster),
        "conntrack": {"maxPerCore": 0, "min": 0},  # The limits are the host's, not this namespace's to set.
    })
    start(cluster, "kube-proxy", program("kube-proxy", kubernetes), "--config", folder / "kube-proxy.json")
    # Names outside of the cluster get NXDOMAIN at once: resolvers repeat queries that are refused or not answered.
    (folder / "Corefile").write_text(f"""
cluster.local:53 in-addr.arpa:53 {{
    bind {network.NODE_ADDRESS}
    errors
    kubernetes {{
        kubeconfig {cluster.kubeconfig} {cluster.namespace}
        ttl 1
    }}
}}
.:53 {{
    bind {network.NODE_ADDRESS}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
""")
    start(cluster, "coredns", program("coredns"), "-conf", folder / "Corefile")


def wait_for_node(cluster: Cluster) -> None:
    wait_until(cluster, "kubelet", lambda: is_ready(cluster), "the node is Ready")
    wait_until(
        cluster, "kube-proxy", lambda: network.answers(network.API_SERVICE_ADDRESS, 443), "services are reachable"
    )
    wait_until(
        cluster, "coredns",
        lambda: network.resolves("kubernetes.default.svc.cluster.local", network.NODE_ADDRESS),
        "CoreDNS resolves the API server's service",
    )


def is_ready(cluster: Cluster) -> bool:
    """Ready, and no longer tainted as not ready, so that pods are scheduled."""
    node = control_plane.get(cluster, f"/api/v1/nodes/{node_name(cluster)}")
    if not node or node["spec"].get("taints"):
        return False
    return any(condition["type"] == "Ready" and condition["status"] == "True"
               for condition in node["status"].get("conditions", []))


def remove_traces_outside(cluster: Cluster) -> None:
    """Removes files from three places that are fixed in containerd's and kubelet's code. Needs the cluster's folder."""
    results = pathlib.Path("/var/lib/cni/results")
    for container in cluster.folder.glob("run/io.containerd.runtime.v2.task/*/*"):
        address = container / "address"
        if address.exists():
            pathlib.Path(address.read_text().strip().removeprefix("unix://")).unlink(missing_ok=True)
        (results / f"cni-loopback-{container.name}-lo").unlink(missing_ok=True)
    # The name ends before the container's id, so that a cluster `a` leaves those of a cluster `a-b` alone.
    for result in results.glob(f"{cluster.namespace}-{'[0-9a-f]' * 64}-*"):
        result.unlink(missing_ok=True)
    for link in pathlib.Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and os.readlink(link).startswith(f"{cluster.folder}/"):
            link.unlink(missing_ok=True)


def write(path: pathlib.Path, configuration: dict) -> None:
    path.write_text(json.dumps(configuration, indent=2))
