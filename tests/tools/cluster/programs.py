"""Builds and installs the programs of a cluster, unless they are there already.

Kubernetes, etcd, CoreDNS, Helm, Prometheus and Kueue are built from their Go modules, because a registry of Go modules is reachable
from more places than release downloads are; the rest are Debian packages. What is built is kept under the
cache by version, so only the first run on a machine pays for it.

All programs that a run lacks are built by one `go build`, in one module: most packages are common to several programs and compiled
only once, and both cores have work until the last program is linked.
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

import progress
from layout import cache, locked

KUBERNETES = "1.34.4"
# The next three have versions that build with this Kubernetes' versions of their common dependencies.
ETCD = "3.6.4"
COREDNS = "1.12.4"
HELM = "3.19.4"
PROMETHEUS = "0.313.5"  # Release 3.13.5: the versions of its module begin with a zero.
KUEUE = "0.17.0"
ARGO_CD = "3.1.0"

LEVELS = ("api", "node")

API_PROGRAMS = ("kube-apiserver", "etcd", "kubectl")
NODE_PROGRAMS = ("kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns")
# Only tests run these, so a demonstration does not build them.
TEST_PROGRAMS = ("json-patch", "helm")
OURS = pathlib.Path(__file__).resolve().parents[1]
# Applies JSON patches as the API server does, for tests.
JSON_PATCH = (OURS / "json-patch" / "main.go").read_text()
# Applies Argo CD's rules for the health of applications.
ARGO_CD_HEALTH = (OURS / "argo-cd-health" / "main.go").read_text()

# Without debug information, which would be stripped anyway: an eighth less work.
WITHOUT_DEBUG_INFORMATION = "-gcflags=all=-dwarf=false"
# Go's compiler collects garbage only when its heap has grown sixfold: packages are small, a build machine has memory to spare, and the
# build takes a tenth less CPU time.
SELDOM = "500"


@dataclasses.dataclass(frozen=True)
class Beside:
    """A program that is built in the module of the default Kubernetes, from a third-party module and, mostly, a main function of ours."""

    module: str
    version: str
    main: str | None = None


BESIDE = {
    "etcd": Beside(
        "go.etcd.io/etcd/server/v3",
        ETCD,
        'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\n'
        "func main() { etcdmain.Main(os.Args) }\n",
    ),
    # With the plugins that the Corefile in node.py names, and no others: they would be half of its packages.
    "coredns": Beside(
        "github.com/coredns/coredns",
        COREDNS,
        "package main\n\nimport (\n"
        + "".join(f'\t_ "github.com/coredns/coredns/plugin/{name}"\n' for name in ("bind", "errors", "kubernetes", "template"))
        + '\t"github.com/coredns/coredns/coremain"\n)\n\nfunc main() { coremain.Run() }\n',
    ),
    "json-patch": Beside("gopkg.in/evanphx/json-patch.v4", "4.12.0", JSON_PATCH),
    "helm": Beside("helm.sh/helm/v3", HELM),
}

@dataclasses.dataclass(frozen=True)
class Alone:
    """A program that is built in a module of its own, from `cmd` of a third-party module or with a main function of ours."""

    module: str
    version: str
    # The variable of the program's version, and its value: NAME=VALUE of the linker's flag -X.
    said: str = ""
    tags: str = ""
    # The oldest Go with which the module can be built.
    go: str = "1.24.0"
    # A folder of the module that is kept beside the program.
    kept: str | None = None
    main: str | None = None


ALONE = {
    # It discovers pods, which Debian's does not. Of all its service discoveries only that of Kubernetes is compiled in.
    "prometheus": Alone(
        "github.com/prometheus/prometheus",
        PROMETHEUS,
        f"github.com/prometheus/common/version.Version={PROMETHEUS.replace('0.3', '3.', 1)}",
        tags="netgo,remove_all_sd,enable_kubernetes_sd",
    ),
    # With its manifests.
    "kueue": Alone("sigs.k8s.io/kueue", KUEUE, f"sigs.k8s.io/kueue/pkg/version.GitVersion=v{KUEUE}", go="1.25.0", kept="config"),
    "argo-cd-health": Alone("github.com/argoproj/argo-cd/v3", ARGO_CD, go="1.25.0", main=ARGO_CD_HEALTH),
}

# program (or file) that must exist → Debian package that brings it. Looked up by program and not by package,
# because a machine with Docker has containerd and runc from packages of another name.
DEBIAN = {
    "api": {"ip": "iproute2", "openssl": "openssl"},
    "tests": {"tmux": "tmux"},
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
    "lines": {"cloc": "cloc"},
    "python": {"pip3": "python3-pip"},
    "node-packages": {"npm": "npm"},
    "images": {
        "buildah": "buildah",
        "mmdebstrap": "mmdebstrap",
        "javac": "openjdk-17-jdk-headless",
        "pip3": "python3-pip",
        "zstd": "zstd",
    },
}


def needed(level: str, tests: bool = False) -> tuple[str, ...]:
    return API_PROGRAMS + (NODE_PROGRAMS if level == "node" else ()) + (TEST_PROGRAMS if tests else ())


def program(name: str, kubernetes: str = KUBERNETES) -> pathlib.Path:
    """The path at which a built program is kept, whether it is there already or not."""
    if ours := BESIDE.get(name) or ALONE.get(name):
        version = "-".join(filter(None, (name, ours.version, edition(ours.main))))
    else:
        version = f"kubernetes-{kubernetes}"
    return cache() / "programs" / version / name


def edition(main: str | None) -> str:
    """Identifies a version of a main function, or is empty without one."""
    return hashlib.sha256(main.encode()).hexdigest()[:8] if main else ""


def missing(level: str, kubernetes: str = KUBERNETES, tests: bool = False) -> list[str]:
    """The programs that would have to be built."""
    return [name for name in needed(level, tests) if not program(name, kubernetes).exists()]


def ensure(level: str, kubernetes: str = KUBERNETES, tests: bool = False) -> None:
    """Builds and installs what the level needs and the machine lacks."""
    install(level, *(["tests"] if tests else []))
    if not missing(level, kubernetes, tests):
        return
    # One lock for all, since they share Go's caches, which are deleted once all are built.
    with locked(go_folder() / ".lock", "build of Kubernetes"):
        lacking = missing(level, kubernetes, tests)
        beside = [name for name in lacking if name in BESIDE]
        own = [name for name in lacking if name not in BESIDE]
        if kubernetes == KUBERNETES:
            own, beside = lacking, []
        for version, names in ((KUBERNETES, beside), (kubernetes, own)):
            if names:
                build_kubernetes(version, names)
        drop_what_go_keeps()


def ensure_alone(name: str) -> pathlib.Path:
    """The path of one of the programs in ALONE, built if it is missing."""
    alone, target = ALONE[name], program(name)
    with locked(go_folder() / ".lock", f"build of {name}"):
        if not target.exists():
            folder = go_folder() / target.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "go.mod").write_text(f"module local/{name}\n\ngo {alone.go}\n\nrequire {alone.module} v{alone.version}\n")
            if alone.kept:
                module = downloaded(alone.module, alone.version, folder)
                shutil.copytree(pathlib.Path(module["Dir"]) / alone.kept, target.parent / alone.kept, dirs_exist_ok=True)
            package = f"{alone.module}/cmd/{name}"
            if alone.main:
                (folder / "main.go").write_text(alone.main)
                package = "."
            build(folder, {name: package}, f"-X {alone.said}" if alone.said else "", KUBERNETES, tags=alone.tags)
            drop_what_go_keeps()
    return target


def missing_packages(*levels: str) -> list[str]:
    """The Debian packages whose programs are missing; each level includes those of `api`."""
    wanted = {name: package for level in ("api", *levels) for name, package in DEBIAN[level].items()}
    return [package for name, package in wanted.items() if not shutil.which(name) and not os.path.exists(name)]


def install(*levels: str) -> None:
    """Installs the Debian packages whose programs are missing."""
    lacking = missing_packages(*levels)
    if not lacking:
        return
    if os.geteuid() != 0:
        raise SystemExit(f"run as root, or install these packages yourself: {' '.join(lacking)}")
    if not shutil.which("apt-get"):
        raise SystemExit(f"there is no apt-get here; install what Debian calls: {' '.join(lacking)}")
    with locked(cache() / "programs" / ".apt.lock", "package installation"):
        with progress.step(f"installing {' '.join(lacking)}", usual=20):
            # In this run level no package starts its service: the tests start what they need.
            quietly = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
            for command in (["update"], ["install", "-y", "--no-install-recommends", *lacking]):
                result = subprocess.run(
                    ["apt-get", "-o", "DPkg::Lock::Timeout=300", *command], env=quietly, capture_output=True, text=True
                )
                # A third-party source that does not answer is no reason to stop: the install says what is missing.
                if result.returncode != 0 and command[0] == "install":
                    raise SystemExit(f"apt-get {command[0]} failed:\n{(result.stdout + result.stderr)[-3000:]}")


def build_kubernetes(kubernetes: str, names: list[str]) -> None:
    """Builds programs of Kubernetes and, in the module of the default version, those beside it."""
    folder = go_folder() / f"kubernetes-{kubernetes}"
    folder.mkdir(parents=True, exist_ok=True)
    beside = BESIDE if kubernetes == KUBERNETES else {}
    (folder / "go.mod").write_text(kubernetes_go_mod(kubernetes, folder, beside))
    packages = {}
    for name in names:
        if name not in BESIDE:
            packages[name] = f"k8s.io/kubernetes/cmd/{name}"
        elif BESIDE[name].main is None:
            packages[name] = f"{BESIDE[name].module}/cmd/{name}"
        else:
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "main.go").write_text(BESIDE[name].main)
            packages[name] = f"./{name}"
    # The linker ignores flags for packages that a program does not have.
    build(folder, packages, f"{kubernetes_version_flags(kubernetes)} {helm_version_flags()}", kubernetes)


def build(folder: pathlib.Path, packages: dict[str, str], version: str, kubernetes: str, tags: str = "") -> None:
    """Builds programs (name → package) of the module in the folder, by one call."""
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    first, *others = packages
    names = f"{first} and {len(others)} more" if others else first
    with progress.step(f"fetching the modules of {names}", usual=20):
        # Fills go.mod and go.sum in, fetches the modules, and says how many packages there are to compile.
        listed = go(folder, "list", "-deps", "-tags", tags, *packages.values())
        if listed.returncode != 0:
            raise SystemExit(f"fetching the modules of {names} failed:\n{listed.stderr[-3000:]}")
    count = len(listed.stdout.splitlines())
    # 2,900 packages take five minutes on two cores.
    with progress.step(f"building {names} with Go", usual=count // 10 + 5, of=count) as step:
        command = ["build", "-v", "-trimpath", "-tags", tags, WITHOUT_DEBUG_INFORMATION, "-ldflags", f"-s -w {version}"]
        # Go prints the name of each package when it begins to compile it.
        built = go(folder, *command, "-o", f"{unfinished}/", *packages.values(), each_line=lambda _: step.advance())
        if built.returncode != 0:
            raise SystemExit(f"building {names} failed:\n{built.stderr[-3000:]}")
    for name in packages:
        target = program(name, kubernetes)
        target.parent.mkdir(parents=True, exist_ok=True)
        (unfinished / name).rename(target)


def go(folder: pathlib.Path, *arguments: str, each_line=None) -> subprocess.CompletedProcess:
    """Runs Go in a module's folder; `each_line` is called with each line on standard error, as soon as it is written."""
    if not shutil.which("go"):
        raise SystemExit("Kubernetes is built with Go, which is missing: install Go 1.24 or later (https://go.dev/dl)")
    # The build yields to whoever is compiling the operator at the same time.
    with subprocess.Popen(["nice", "go", *arguments], cwd=folder, env=go_environment(), text=True,
                          stdout=subprocess.PIPE if each_line is None else subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        if each_line is None:
            out, error = process.communicate()
            return subprocess.CompletedProcess(arguments, process.returncode, out, error)
        lines = []
        for line in process.stderr:
            lines.append(line)
            each_line(line)
    return subprocess.CompletedProcess(arguments, process.returncode, "", "".join(lines))


def go_folder() -> pathlib.Path:
    return cache() / "go"


def go_keeps() -> dict[str, pathlib.Path]:
    """Variable of Go's environment → folder: what it has compiled, and the modules that it has fetched."""
    return {"GOCACHE": go_folder() / "compiled", "GOMODCACHE": go_folder() / "modules"}


def drop_what_go_keeps() -> None:
    """Once every program of today's versions is built: it is several gigabytes, and nothing is built with it again."""
    if not missing("node", tests=True):
        for folder in go_keeps().values():
            shutil.rmtree(folder, ignore_errors=True)


def go_environment() -> dict[str, str]:
    # -mod=mod fills go.mod and go.sum in; GOWORK=off keeps a workspace file above the cache out of it; modules that
    # may be written to can be deleted.
    kept = {variable: str(folder) for variable, folder in go_keeps().items()}
    flags = "-mod=mod -modcacherw -buildvcs=false"
    return dict(os.environ, CGO_ENABLED="0", GOFLAGS=flags, GOGC=SELDOM, GOWORK="off", **kept)


def helm_version_flags() -> str:
    """Flags for Helm's own version, and for the version of Kubernetes that charts are rendered for without a cluster."""
    major, minor, _ = KUBERNETES.split(".")
    module = BESIDE["helm"].module
    said = {f"{module}/internal/version.version": f"v{HELM}"}
    for package in (f"{module}/pkg/chartutil", f"{module}/pkg/lint/rules"):
        said |= {f"{package}.k8sVersionMajor": major, f"{package}.k8sVersionMinor": minor}
    return " ".join(f"-X {name}={value}" for name, value in said.items())


def kubernetes_go_mod(version: str, folder: pathlib.Path, beside: dict[str, Beside]) -> str:
    """A go.mod that can build Kubernetes' commands, and what is built beside them.

    Kubernetes takes its staging modules from folders of its repository, which is why it cannot simply be `go
    install`ed. The same modules are published as v0.minor.patch.
    """
    kubernetes = downloaded("k8s.io/kubernetes", version, folder)
    published = "v0." + version.partition(".")[2]
    staging = staging_modules(pathlib.Path(kubernetes["GoMod"]).read_text())
    required = "".join(f"\t{wanted.module} v{wanted.version}\n" for wanted in beside.values())
    replaced = "".join(f"\t{module} => {module} {published}\n" for module in staging)
    return (
        f"module local/kubernetes\n\ngo 1.24.0\n\nrequire (\n\tk8s.io/kubernetes v{version}\n{required})\n\n"
        f"replace (\n{replaced})\n"
    )


def downloaded(module: str, version: str, folder: pathlib.Path) -> dict[str, str]:
    """The paths of the files of a module, with the keys of `go mod download -json`."""
    result = go(folder, "mod", "download", "-json", f"{module}@v{version}")
    if result.returncode != 0:
        raise SystemExit(f"{module} {version} cannot be fetched:\n{result.stderr or result.stdout}")
    return json.loads(result.stdout)


def staging_modules(go_mod: str) -> list[str]:
    """The modules that Kubernetes requires as v0.0.0, a version that was never published."""
    return re.findall(r"^\s*(?:require )?(k8s\.io/\S+) v0\.0\.0$", go_mod, re.MULTILINE)


def kubernetes_version_flags(version: str) -> str:
    # Without these the server reports v0.0.0, and clients refuse or complain.
    major, minor, _ = version.split(".", 2)
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())


def python_is_new_enough() -> None:
    if sys.version_info < (3, 11):
        raise SystemExit("this tool needs Python 3.11 or later")
