"""The cgroups that a cluster owns, and the processes in them.

Kubelet puts every pod below one cgroup per cluster, so what a killed containerd leaves running is found there,
with cgroup v1 (one tree a controller) as with v2 (one tree).
"""

import os
import pathlib
import time

from layout import Cluster
from processes import Identity, identity_of


def trees() -> list[tuple[pathlib.Path, str]]:
    """Mount point and filesystem type of every cgroup tree."""
    found = []
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            found.append((pathlib.Path(place), kind))
    return found


def create(cluster: Cluster) -> None:
    """Kubelet wants the parent of its cgroups to exist already, in every tree."""
    for place, kind in trees():
        own = place / cluster.cgroup.lstrip("/")
        own.mkdir(exist_ok=True)
        if kind == "cgroup2":
            for folder in (place, own):
                enable_controllers(folder)
        # A new v1 cpuset is empty, and nothing can run in it.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if kind == "cgroup" and (own / setting).exists():
                (own / setting).write_text((place / setting).read_text())


def enable_controllers(folder: pathlib.Path) -> None:
    for controller in (folder / "cgroup.controllers").read_text().split():
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            pass  # Not delegated to us; kubelet names the ones it misses.


def owned(cluster: Cluster) -> list[pathlib.Path]:
    """The cluster's cgroups, deepest first, the order in which they can be removed."""
    found = []
    for place, _ in trees():
        for folder, _, _ in os.walk(place / cluster.cgroup.lstrip("/"), topdown=False):
            found.append(pathlib.Path(folder))
    return found


def processes(cluster: Cluster) -> list[Identity]:
    pids = set()
    for folder in owned(cluster):
        try:
            pids.update((folder / "cgroup.procs").read_text().split())
        except OSError:
            continue  # Removed while we read.
    return [process for process in map(identity_of, pids) if process]


def remove(cluster: Cluster, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while True:
        for folder in owned(cluster):
            try:
                folder.rmdir()
            except OSError:
                pass  # Still busy: the kernel takes a moment after the last process is gone.
        if not owned(cluster) or time.monotonic() > deadline:
            return
        time.sleep(0.02)
