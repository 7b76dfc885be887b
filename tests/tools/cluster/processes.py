"""Starts and stops the processes of a cluster, and never touches those of another.

A process is recorded by its own first act, before it becomes the component, so a kill -9 of this tool leaves no
process unrecorded. A record is pid, start time and boot: a pid that the kernel has since given to somebody else
is recognised and left alone. Everything of a cluster is thrown away when it stops, so stopping is SIGKILL.
"""

import dataclasses
import json
import os
import pathlib
import select
import signal
import subprocess
import time

from layout import Cluster


class ComponentFailed(Exception):
    def __init__(self, component: str, why: str):
        super().__init__(f"{component} {why}")
        self.component = component


@dataclasses.dataclass(frozen=True)
class Identity:
    pid: int
    started: int  # clock ticks since boot, field 22 of /proc/PID/stat
    boot: str

    @property
    def is_alive(self) -> bool:
        now = stat_of(self.pid)
        return now is not None and now == ("running", self.started) and self.boot == boot_id()


def boot_id() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat_of(pid: int | str) -> tuple[str, int] | None:
    try:
        return parse_stat(pathlib.Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None


def parse_stat(text: str) -> tuple[str, int]:
    # The command name is in parentheses and may itself hold blanks and parentheses: split after the last one.
    fields = text.rpartition(")")[2].split()
    return ("ended" if fields[0] in "ZX" else "running", int(fields[19]))


def identity_of(pid: int | str) -> Identity | None:
    stat = stat_of(pid)
    return Identity(int(pid), stat[1], boot_id()) if stat else None


def start(cluster: Cluster, component: str, *command: str | os.PathLike, **environment: str) -> None:
    """Starts a component in this process's network namespace, with its output in the component's log."""
    record = cluster.records / component
    record.parent.mkdir(exist_ok=True)
    # Nothing of the caller's environment: a proxy setting or a KUBECONFIG of theirs must not reach the cluster.
    # Temporary files (containerd's mounts among them) go where `down` looks.
    scratch = cluster.folder / "tmp"
    scratch.mkdir(exist_ok=True)
    plain = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(scratch),
             "TMPDIR": str(scratch)}

    def record_myself():
        # Between fork and exec: pid and start time are already those of the component.
        record.write_text(json.dumps(dataclasses.asdict(identity_of(os.getpid()))))

    with open(cluster.logs / f"{component}.log", "ab") as log:
        subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cluster.folder,
            env=plain | environment, start_new_session=True, preexec_fn=record_myself,
        )


def recorded(cluster: Cluster) -> dict[str, Identity]:
    """The components in the order in which they were started."""
    found = {}
    if cluster.records.is_dir():
        for record in sorted(cluster.records.iterdir(), key=lambda path: path.stat().st_mtime_ns):
            try:
                found[record.name] = Identity(**json.loads(record.read_text()))
            except (json.JSONDecodeError, TypeError):
                continue  # Killed while it wrote its record; it never became a component.
    return found


def wait_until(cluster: Cluster, component: str, condition, what: str, seconds: float = 60) -> None:
    """Polls until the condition holds. Reports the component as failed after `seconds`, and any component that ends meanwhile."""
    deadline = time.monotonic() + seconds
    while not condition():
        for name, process in recorded(cluster).items():
            if not process.is_alive:
                raise ComponentFailed(name, f"ended while we waited until {what}")
        if time.monotonic() > deadline:
            raise ComponentFailed(component, f"is running, but after {seconds:.0f} s it is not true that {what}")
        time.sleep(0.05)


def kill(victims: list[Identity], seconds: float = 10) -> None:
    """Kills exactly these processes and waits until they are gone."""
    handles = []
    for victim in victims:
        try:
            handle = os.pidfd_open(victim.pid)
        except ProcessLookupError:
            continue
        # The handle is bound to one process; if that one is the recorded one, the signal cannot go astray.
        if victim.is_alive:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            handles.append(handle)
        else:
            os.close(handle)
    deadline = time.monotonic() + seconds
    for handle in handles:
        select.select([handle], [], [], max(0, deadline - time.monotonic()))
        os.close(handle)


def kill_children() -> None:
    """Kills all that this process has started, and what that has started."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(entry)] = int(pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    victims = (identity_of(pid) for pid in ours - {os.getpid()})
    kill([victim for victim in victims if victim and victim.is_alive])


def all_processes() -> list[Identity]:
    found = (identity_of(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [process for process in found if process]


def in_network_namespace(file: pathlib.Path) -> list[Identity]:
    """Every process in the namespace, except ourselves and those that called us."""
    try:
        inside = file.stat()
    except FileNotFoundError:
        return []
    spared = ancestors()
    found = []
    for process in all_processes():
        try:
            theirs = os.stat(f"/proc/{process.pid}/ns/net")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if (theirs.st_dev, theirs.st_ino) == (inside.st_dev, inside.st_ino) and process.pid not in spared:
            found.append(process)
    return found


def ancestors() -> set[int]:
    found, pid = set(), os.getpid()
    while pid > 0:
        found.add(pid)
        try:
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except FileNotFoundError:
            break
    return found


def container_runtime_processes(cluster: Cluster) -> list[Identity]:
    """The shims and runcs that a killed containerd leaves: they name our folder among their arguments."""
    found = []
    for process in all_processes():
        try:
            arguments = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        program = os.path.basename(arguments[0])
        if program in ("containerd-shim-runc-v2", "runc") and any(
            argument.startswith(f"{cluster.folder}/") for argument in arguments
        ):
            found.append(process)
    return found
