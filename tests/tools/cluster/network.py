"""The network namespace of a cluster.

It has no uplink: the same addresses serve every cluster, nothing can leave the machine, and all of it disappears
with one name. The tool itself enters it, so whatever it starts is inside.
"""

import ctypes
import os
import socket
import struct
import subprocess

from layout import Cluster

# 198.18.0.0/15 is set aside for tests of networks (RFC 2544): no real network in the way can have these.
NODE_ADDRESS = "198.18.0.1"
NODE_SUBNET = "198.18.0.0/18"
POD_SUBNET = "198.18.64.0/18"
SERVICE_SUBNET = "198.19.0.0/16"  # hundreds of applications have a Service for their web UI
API_SERVICE_ADDRESS = "198.19.0.1"  # the first of the service subnet, by Kubernetes' own rule

CLONE_NEWNET = 0x40000000


def create(cluster: Cluster) -> None:
    subprocess.run(["ip", "netns", "add", cluster.namespace], check=True)
    # No default route: a packet for the outside fails at once instead of waiting for an answer to ARP. The route
    # to the services is there for the lookup that comes before kube-proxy rewrites the destination.
    commands = f"""
        link set lo up
        link add node0 type bridge
        addr add {NODE_ADDRESS}/{NODE_SUBNET.partition("/")[2]} dev node0
        link set node0 up
        route add {SERVICE_SUBNET} dev node0 src {NODE_ADDRESS}
    """
    subprocess.run(["ip", "-n", cluster.namespace, "-batch", "-"], input=commands, text=True, check=True)


def enter(cluster: Cluster) -> None:
    """Moves this process, and all that it starts from now on, into the cluster's namespace.

    Not `ip netns exec`, which also remounts /sys and so hides the cgroups from containerd and kubelet.
    """
    with open(cluster.namespace_file) as file:
        enter_file(file)


def enter_file(file) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12; Debian 12 has 3.11.
    if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot enter network namespace {file.name}: {os.strerror(error)}")


def forward_packets() -> None:
    """Lets pods reach each other and the services. Called inside the namespace, whose setting it is."""
    with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1")


def delete(cluster: Cluster) -> None:
    if cluster.namespace_file.exists():
        result = subprocess.run(["ip", "netns", "delete", cluster.namespace], capture_output=True, text=True)
        # After a reboot or a killed `ip netns add` the name is a plain file that holds no namespace.
        if result.returncode != 0 and cluster.namespace_file.exists():
            cluster.namespace_file.unlink()


def answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


def resolves(name: str, server: str) -> bool:
    """Whether the DNS server has an IPv4 address for the name."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(0.5)
        try:
            udp.sendto(query, (server, 53))
            answer = udp.recv(512)
        except OSError:
            return False
    _, flags, _, answers_count, _, _ = struct.unpack(">6H", answer[:12])
    return flags & 0x000F == 0 and answers_count > 0
