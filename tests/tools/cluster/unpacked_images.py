"""Gives new nodes Spark's image without unpacking a gigabyte for each.

The first node that unpacks the image keeps in the cache what its containerd has on disk, and later ones begin with that: the layers as hard
links, to which nothing writes, since a container's changes are in a layer of its own, and the databases as copies. Otherwise every node
would take 20 s of CPU time before its first pod.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import image_store
import processes
from layout import Cluster, cache, locked

# The folders below containerd's root that are about images: contents, databases and snapshots.
FOLDERS = ("io.containerd.content.v1.content", "io.containerd.metadata.v1.bolt", "io.containerd.snapshotter.v1.overlayfs")
DATABASES = ("io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db")


def place() -> pathlib.Path:
    return cache() / "images" / "unpacked"


def place_locked(shared: bool = False):
    return locked(cache() / "images" / ".unpacked.lock", "unpacked images", shared)


def begin_with(cluster: Cluster) -> None:
    """Gives a containerd that has not been started the images that an earlier one has unpacked."""
    with place_locked(shared=True):
        if is_current():
            link(place(), cluster.containerd_root)


def keep(cluster: Cluster, names: list[str]) -> None:
    """Keeps what the node's containerd has on disk for later nodes, now that it has these images."""
    with place_locked():
        if is_current() or image_store.ctr(cluster, "containers", "ls", "--quiet", text=True).stdout.strip():
            return
        shutil.rmtree(place(), ignore_errors=True)
        unfinished = place().with_name(".unpacked")
        shutil.rmtree(unfinished, ignore_errors=True)
        containerd = processes.recorded(cluster)["containerd"].pid
        # The files of a stopped process are as after a crash, after which containerd can start too.
        os.kill(containerd, signal.SIGSTOP)
        try:
            link(cluster.containerd_root, unfinished)
        finally:
            os.kill(containerd, signal.SIGCONT)
        known = image_store.images()
        (unfinished / "images.json").write_text(json.dumps({name: known[name]["digest"] for name in names}))
        unfinished.rename(place())


def is_current() -> bool:
    """Whether the unpacked images are the present ones."""
    record = place() / "images.json"
    if not record.exists():
        return False
    known = image_store.images()
    return all(name in known and known[name]["digest"] == digest for name, digest in json.loads(record.read_text()).items())


def link(source: pathlib.Path, target: pathlib.Path) -> None:
    target.mkdir()
    subprocess.run(["cp", "--archive", "--link", *(source / folder for folder in FOLDERS), target], check=True)
    for database in DATABASES:
        (target / database).unlink()
        shutil.copyfile(source / database, target / database)
