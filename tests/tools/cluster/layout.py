"""The paths of everything that belongs to a cluster.

Nothing is ever written into the checkout: what is worth keeping is under `cache()`, keyed by version or
by content, and what one running cluster owns is under `Cluster.folder`, so that removing it needs one name.
"""

import dataclasses
import fcntl
import os
import pathlib
import re
from contextlib import contextmanager

from progress import say


def cache() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "spark-operator"


@contextmanager
def locked(path: pathlib.Path, waiting_for: str, shared: bool = False):
    """Holds an exclusive lock, or one shared with others that only read; the kernel releases it when the holder dies, so a kill -9 leaves nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    # Python opens files close-on-exec: a started component never inherits, and so never prolongs, the lock.
    with open(path, "w") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run: {waiting_for}")
            fcntl.flock(file, kind)
        yield


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The paths and names of one cluster; everything follows from its name."""

    name: str

    def __post_init__(self):
        # The name ends up in a network namespace, a cgroup, host names and Unix socket paths (108 bytes).
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?", self.name):
            raise SystemExit(f"cluster name {self.name!r}: use 1 to 24 of a-z, 0-9 and -")

    @property
    def folder(self) -> pathlib.Path:
        return cache() / "clusters" / self.name

    @property
    def lock(self) -> pathlib.Path:
        # Beside the folder, not in it: `down` deletes the folder while it holds the lock.
        return cache() / "clusters" / f".{self.name}.lock"

    @property
    def etcd(self) -> pathlib.Path:
        return self.folder / "etcd"

    @property
    def logs(self) -> pathlib.Path:
        return self.folder / "logs"

    @property
    def audit_log(self) -> pathlib.Path:
        """The requests of the user that `up --audit` names, one JSON object a line."""
        return self.folder / "audit.log"

    @property
    def records(self) -> pathlib.Path:
        """One file a started process: see processes.py."""
        return self.folder / "processes"

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self.folder / "kubeconfig"

    @property
    def state(self) -> pathlib.Path:
        """What `up` asked for (level, versions); written last, so its presence means that `up` finished."""
        return self.folder / "state.json"

    @property
    def containerd_socket(self) -> pathlib.Path:
        return self.folder / "containerd.sock"

    @property
    def containerd_root(self) -> pathlib.Path:
        """What containerd keeps: images, and what containers have written."""
        return self.folder / "containerd"

    @property
    def namespace(self) -> str:
        return f"spark-{self.name}"

    @property
    def namespace_file(self) -> pathlib.Path:
        return pathlib.Path("/run/netns") / self.namespace

    @property
    def cgroup(self) -> str:
        """Parent of every cgroup that the node level creates, so that two nodes never share one and `down` finds all."""
        return f"/spark-cluster-{self.name}"
