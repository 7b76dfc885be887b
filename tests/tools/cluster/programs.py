"""Where do the programs of a cluster come from, and are they here already?

Kubernetes, etcd, CoreDNS, Helm and Prometheus are built from their Go modules, because a registry of Go modules is reachable
from more places than release downloads are; the rest are Debian packages. What is built is kept under the
cache by version, so only the first run on a machine pays for it.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from layout import cache, locked
from progress import say

KUBERNETES = "1.34.4"
ETCD = "3.6.16"  # Debian's 3.4 lacks the progress notifications that this API server's watch cache asks for.
COREDNS = "1.12.4"
PROMETHEUS = "0.313.5"  # That is release 3.13.5: its module's versions begin with a zero.
HELM = "3.22.0"

LEVELS = ("api", "node")

# In the order in which they are built: what the API-only level needs comes first.
API_PROGRAMS = ("kube-apiserver", "etcd", "kubectl", "json-patch", "helm")
NODE_PROGRAMS = ("kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns")
# A Prometheus that discovers pods, which Debian's does not: its build takes as long as Kubernetes'.
PROMETHEUS_PROGRAMS = ("prometheus",)

# Prometheus' commands have a main in its module. Of all that it can find its targets by, only Kubernetes is
# compiled in.
PROMETHEUS_TAGS = "netgo,remove_all_sd,enable_kubernetes_sd"

# Applies JSON patches as the API server does, for tests.
JSON_PATCH = (pathlib.Path(__file__).resolve().parents[1] / "json-patch" / "main.go").read_text()


@dataclasses.dataclass(frozen=True)
class SmallMain:
    """A program that is a module of somebody else's and a main function of ours."""

    module: str
    version: str
    main: str
    edition: str = ""  # tells a main function that changes from what it was


# Kubernetes' commands have a main of their own.
SMALL_MAINS = {
    "etcd": SmallMain(
        "go.etcd.io/etcd/server/v3",
        ETCD,
        'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\n'
        "func main() { etcdmain.Main(os.Args) }\n",
    ),
    "coredns": SmallMain(
        "github.com/coredns/coredns",
        COREDNS,
        'package main\n\nimport (\n\t_ "github.com/coredns/coredns/core/plugin"\n'
        '\t"github.com/coredns/coredns/coremain"\n)\n\nfunc main() { coremain.Run() }\n',
    ),
    "json-patch": SmallMain(
        "gopkg.in/evanphx/json-patch.v4", "4.12.0", JSON_PATCH, hashlib.sha256(JSON_PATCH.encode()).hexdigest()[:8]
    ),
}

# program (or file) that must exist → Debian package that brings it. Looked up by program and not by package,
# because a machine with Docker has containerd and runc from packages of another name.
DEBIAN = {
    "api": {"ip": "iproute2", "openssl": "openssl", "tmux": "tmux"},
    "node": {
        "containerd": "containerd",
        "runc": "runc",
        "/usr/lib/cni/bridge": "containernetworking-plugins",
        "iptables": "iptables",
        "nft": "nftables",
        "conntrack": "conntrack",
        "socat": "socat",
        "busybox": "busybox-static",
        "mount": "mount",
    },
    "watching": {
        "chromium": "chromium",
        "/usr/share/fonts/truetype/dejavu": "fonts-dejavu-core",
        "/usr/bin/prometheus": "prometheus",
    },
    "python": {"pip3": "python3-pip"},
    "images": {
        "buildah": "buildah",
        "mmdebstrap": "mmdebstrap",
        "javac": "openjdk-17-jdk-headless",
        "pip3": "python3-pip",
        "zstd": "zstd",
    },
}


def needed(level: str) -> tuple[str, ...]:
    return API_PROGRAMS if level == "api" else API_PROGRAMS + NODE_PROGRAMS


def program(name: str, kubernetes: str = KUBERNETES) -> pathlib.Path:
    """The path at which a built program is kept, whether it is there already or not."""
    if name in SMALL_MAINS:
        small = SMALL_MAINS[name]
        version = "-".join(filter(None, (name, small.version, small.edition)))
    elif name in PROMETHEUS_PROGRAMS:
        version = f"prometheus-{PROMETHEUS}"
    elif name == "helm":
        version = f"helm-{HELM}"
    else:
        version = f"kubernetes-{kubernetes}"
    return cache() / "programs" / version / name


def ensure(level: str, kubernetes: str = KUBERNETES) -> None:
    """Builds and installs what the level needs and the machine lacks."""
    install(level)
    for name in needed(level):
        if not program(name, kubernetes).exists():
            build(name, kubernetes)


def ensure_prometheus() -> pathlib.Path:
    """The path of a Prometheus that discovers pods, built if it is missing."""
    (name,) = PROMETHEUS_PROGRAMS
    if not program(name).exists():
        build(name, KUBERNETES)
    return program(name)


def install(level: str) -> None:
    """Installs the Debian packages whose programs are missing; `node` includes those of `api`."""
    wanted = DEBIAN["api"] | (DEBIAN[level] if level != "api" else {})
    missing = [package for name, package in wanted.items() if not shutil.which(name) and not os.path.exists(name)]
    if not missing:
        return
    if os.geteuid() != 0:
        raise SystemExit(f"run as root, or install these packages yourself: {' '.join(missing)}")
    if not shutil.which("apt-get"):
        raise SystemExit(f"there is no apt-get here; install what Debian calls: {' '.join(missing)}")
    with locked(cache() / "programs" / ".apt.lock", "package installation"):
        say(f"installing {' '.join(missing)}")
        # In this run level no package starts the service that it brings: the tests start what they need.
        quietly = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
        for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
            result = subprocess.run(
                ["apt-get", "-o", "DPkg::Lock::Timeout=300", *command], env=quietly, capture_output=True, text=True
            )
            # A third-party source that does not answer is no reason to stop: the install says what is missing.
            if result.returncode != 0 and command[0] == "install":
                raise SystemExit(f"apt-get {command[0]} failed:\n{(result.stdout + result.stderr)[-3000:]}")


def build(name: str, kubernetes: str) -> None:
    if not shutil.which("go"):
        raise SystemExit(f"{name} is built with Go, which is missing: install Go 1.24 or later (https://go.dev/dl)")
    target = program(name, kubernetes)
    sources = go_folder() / target.parent.name
    sources.mkdir(parents=True, exist_ok=True)
    # One lock for all, as they share what Go keeps, which goes once all are built.
    with locked(go_folder() / ".lock", f"build of {name}"):
        if target.exists():
            return
        started, tags = time.monotonic(), ""
        say(f"building {name} ({target.parent.name})")
        if name in SMALL_MAINS:
            small = SMALL_MAINS[name]
            write_go_mod(sources, small.module, small.version)
            (sources / "main.go").write_text(small.main)
            package, flags = ".", "-s -w"
        elif name in PROMETHEUS_PROGRAMS:
            module = "github.com/prometheus/prometheus"
            write_go_mod(sources, module, PROMETHEUS)
            package, tags = f"{module}/cmd/{name}", PROMETHEUS_TAGS
            flags = f"-s -w -X github.com/prometheus/common/version.Version={PROMETHEUS.replace('0.3', '3.', 1)}"
        elif name == "helm":
            module = "helm.sh/helm/v3"
            write_go_mod(sources, module, HELM)
            package, flags = f"{module}/cmd/helm", helm_version_flags(module)
        else:
            (sources / "go.mod").write_text(kubernetes_go_mod(kubernetes, sources))
            package, flags = f"k8s.io/kubernetes/cmd/{name}", kubernetes_version_flags(kubernetes)
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{name}.unfinished")
        command = ["go", "build", "-trimpath", "-tags", tags, "-ldflags", flags, "-o", str(unfinished), package]
        # The build yields to whoever is compiling the operator at the same time.
        result = subprocess.run(["nice", *command], cwd=sources, env=go_environment(), capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(f"building {name} failed:\n{result.stderr[-3000:]}")
        unfinished.rename(target)
        say(f"built {name} in {time.monotonic() - started:.0f} s")
        drop_what_go_keeps()


def go_folder() -> pathlib.Path:
    return cache() / "go"


def go_keeps() -> dict[str, pathlib.Path]:
    """Variable of Go's environment → folder: what it has compiled, and the modules that it has fetched."""
    return {"GOCACHE": go_folder() / "compiled", "GOMODCACHE": go_folder() / "modules"}


def drop_what_go_keeps() -> None:
    """Once every program of today's versions is built: it is several gigabytes, and nothing is built with it again."""
    if all(program(name).exists() for name in needed("node")):
        for folder in go_keeps().values():
            shutil.rmtree(folder, ignore_errors=True)


def go_environment() -> dict[str, str]:
    # -mod=mod fills go.mod and go.sum in; GOWORK=off keeps a workspace file above the cache out of it; modules that
    # may be written to can be deleted.
    kept = {variable: str(folder) for variable, folder in go_keeps().items()}
    return dict(os.environ, CGO_ENABLED="0", GOFLAGS="-mod=mod -modcacherw -buildvcs=false", GOWORK="off", **kept)


def write_go_mod(folder: pathlib.Path, module: str, version: str) -> None:
    (folder / "go.mod").write_text(f"module local/{folder.name}\n\ngo 1.24.0\n\nrequire {module} v{version}\n")


def helm_version_flags(module: str) -> str:
    """Flags for Helm's own version, and for the version of Kubernetes that charts are rendered for without a cluster."""
    major, minor, _ = KUBERNETES.split(".")
    said = {f"{module}/internal/version.version": f"v{HELM}"}
    for package in (f"{module}/pkg/chartutil", f"{module}/pkg/lint/rules"):
        said |= {f"{package}.k8sVersionMajor": major, f"{package}.k8sVersionMinor": minor}
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in said.items())


def kubernetes_go_mod(version: str, folder: pathlib.Path) -> str:
    """A go.mod that can build Kubernetes' commands.

    Kubernetes takes its staging modules from folders of its repository, which is why it cannot simply be `go
    install`ed. The same modules are published as v0.minor.patch.
    """
    result = subprocess.run(
        ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"],
        cwd=folder, env=go_environment(), capture_output=True, text=True,
    )
    if result.returncode != 0:
        raise SystemExit(f"Kubernetes {version} cannot be fetched:\n{result.stderr or result.stdout}")
    published = "v0." + version.partition(".")[2]
    staging = staging_modules(pathlib.Path(json.loads(result.stdout)["GoMod"]).read_text())
    replaced = "".join(f"\t{module} => {module} {published}\n" for module in staging)
    return f"module local/kubernetes\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v{version}\n\nreplace (\n{replaced})\n"


def staging_modules(go_mod: str) -> list[str]:
    """Those that Kubernetes requires as v0.0.0, a version that was never published."""
    return re.findall(r"^\s*(?:require )?(k8s\.io/\S+) v0\.0\.0$", go_mod, re.MULTILINE)


def kubernetes_version_flags(version: str) -> str:
    # Without these the server reports v0.0.0, and clients refuse or complain.
    major, minor, _ = version.split(".", 2)
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())


def python_is_new_enough() -> None:
    if sys.version_info < (3, 11):
        raise SystemExit("this tool needs Python 3.11 or later")
