"""Starts and stops a cluster, and removes what an earlier run has left."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import cgroups
import control_plane
import network
import node
import processes
import programs
from layout import Cluster, locked
from progress import say


def up(cluster: Cluster, level: str, kubernetes: str, fresh: bool, audited: str | None = None) -> None:
    require_root()
    programs.ensure(level, kubernetes)  # Before the lock and the namespace: it may take minutes, and the network.
    with locked(cluster.lock, f"cluster {cluster.name}"):
        wanted = {"level": level, "kubernetes": kubernetes, "audited": audited}
        if not fresh and state(cluster) == wanted and is_healthy(cluster):
            print(f"cluster {cluster.name} is up already ({level} level)")
            return
        started = time.monotonic()
        clear(cluster)
        # A terminated `up` must clean up like a failed one; a killed one is cleaned up by the next.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            start(cluster, level, kubernetes, audited)
            cluster.state.write_text(json.dumps(wanted))
        except BaseException as failure:
            report(cluster, failure)
            clear(cluster)
            if isinstance(failure, processes.ComponentFailed):
                raise SystemExit(1) from None
            raise
        print(f"cluster {cluster.name} is up in {time.monotonic() - started:.1f} s ({level} level)")


def down(cluster: Cluster) -> None:
    require_root()
    with locked(cluster.lock, f"cluster {cluster.name}"):
        clear(cluster)
    print(f"cluster {cluster.name} is down")


def start(cluster: Cluster, level: str, kubernetes: str, audited: str | None) -> None:
    cluster.folder.mkdir(parents=True)
    keep_in_memory(cluster.etcd, cluster.logs)
    network.create(cluster)
    network.enter(cluster)
    control_plane.make_credentials(cluster)
    control_plane.start_etcd_and_apiserver(cluster, level, kubernetes, audited)
    if level == "node":
        # In the meantime the API server starts, which containerd does not need.
        network.forward_packets()
        cgroups.create(cluster)
        node.start_containerd(cluster)
        node.wait_for_containerd(cluster)
        node.load_base_images(cluster)
    control_plane.wait_for_apiserver(cluster)
    if level == "node":
        control_plane.start_controllers(cluster, kubernetes)
        node.start_node(cluster, kubernetes)
        control_plane.wait_for_controllers(cluster)
        node.wait_for_node(cluster)


def keep_in_memory(*folders: pathlib.Path) -> None:
    """Answers of the API server do not wait for the disk then, which can stand still for seconds after a compilation. `clear` unmounts."""
    for folder in folders:
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", folder], check=True)


def state(cluster: Cluster) -> dict | None:
    """What is up, or None when nothing is, or when an `up` was killed before its end."""
    try:
        return json.loads(cluster.state.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def is_healthy(cluster: Cluster) -> bool:
    known = processes.recorded(cluster).values()
    if not known or not all(process.is_alive for process in known) or not cluster.namespace_file.exists():
        return False
    with open("/proc/self/ns/net") as host:
        network.enter(cluster)
        healthy = control_plane.is_ready(cluster) and (
            state(cluster)["level"] == "api" or node.is_ready(cluster)
        )
        network.enter_file(host)
    return healthy


def clear(cluster: Cluster) -> None:
    """Removes everything that belongs to the cluster, whatever state it is in. Doing it twice is harmless."""
    deadline = time.monotonic() + 20
    while victims := owned_processes(cluster):
        processes.kill(victims)
        if time.monotonic() > deadline:
            raise SystemExit(f"these processes cannot be killed: {sorted(victim.pid for victim in victims)}")
    cgroups.remove(cluster)
    node.remove_traces_outside(cluster)
    for place in mounts_below(cluster.folder):
        subprocess.run(["umount", "--lazy", place], capture_output=True)
    network.delete(cluster)
    if left := mounts_below(cluster.folder):
        raise SystemExit(f"these mounts cannot be removed: {left}")
    shutil.rmtree(cluster.folder, ignore_errors=True)
    if cluster.folder.exists():
        shutil.rmtree(cluster.folder)  # Once more, this time naming what is in the way.


def owned_processes(cluster: Cluster) -> list[processes.Identity]:
    """Components first: as long as kubelet and containerd live, they start new containers."""
    groups = (
        processes.recorded(cluster).values(),
        processes.container_runtime_processes(cluster),
        cgroups.processes(cluster),
        # Also what was run with `cluster exec`, for example by a test that was killed.
        processes.in_network_namespace(cluster.namespace_file),
    )
    # A zombie cannot be killed again, and need not be: it holds nothing.
    living = ([process for process in group if process.is_alive] for group in groups)
    return next(filter(None, living), [])


def mounts_below(folder: pathlib.Path) -> list[str]:
    """Deepest first."""
    places = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        # Blanks and the like are written as octal escapes.
        place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split(" ")[4])
        if place.startswith(f"{folder}/"):
            places.append(place)
    return places[::-1]


def report(cluster: Cluster, failure: BaseException) -> None:
    say(f"cluster {cluster.name} did not come up: {failure or type(failure).__name__}")
    if isinstance(failure, processes.ComponentFailed):
        log = cluster.logs / f"{failure.component}.log"
        if log.exists():
            say(f"the last lines of {failure.component}:")
            say("\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-20:]))


def require_root() -> None:
    if os.geteuid() != 0:
        raise SystemExit("this needs root: it makes a network namespace, mounts and cgroups")
