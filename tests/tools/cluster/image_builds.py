"""Builds the project's images on a machine without Docker and without a registry.

They are built from the project's Dockerfile, by buildah. The base images, which cannot be pulled, are stand-ins of the same names
made of Debian packages. An image is built again only when something that goes into it has changed, and its lower
layers only when what goes into those has.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

import image_store
import progress
import spark
from layout import cache, locked

PROJECT = pathlib.Path(__file__).resolve().parents[3]
JOBS = PROJECT / "tests" / "tools" / "images" / "jobs"

SLIM = "docker.io/library/debian:bookworm-slim"
DISTROLESS = "gcr.io/distroless/static-debian12:nonroot"

OPERATOR = "localhost/spark-operator:dev"

# The Debian packages of the distroless image that the operator needs.
DISTROLESS_PACKAGES = ("base-files", "tzdata")
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian")


@dataclasses.dataclass(frozen=True)
class Target:
    name: str  # of the stage in the Dockerfile
    image: str  # what the result is called; {spark} stands for Spark's version
    bases: tuple[str, ...]
    contexts: tuple[str, ...]  # named build contexts that the stage needs
    usual: int  # seconds that its build takes


TARGETS = (
    Target("operator", OPERATOR, (DISTROLESS, SLIM), ("binary",), 5),
    # Exactly the public image's name, so that examples for users run unchanged.
    Target("spark", "docker.io/apache/spark:{spark}", (SLIM,), ("distribution", "jobs", "exporters"), 75),
)


def build(names: list[str], operator: pathlib.Path | None, spark_version: str) -> list[str]:
    """Builds these targets, as far as they are not up to date; returns the images' names."""
    chosen = [target for target in TARGETS if target.name in names]
    if any("binary" in target.contexts for target in chosen) and not (operator and operator.is_file()):
        raise SystemExit("the operator's images need its program: --operator-binary PATH")
    images = [target.image.format(spark=spark_version) for target in chosen]
    with locked(work() / ".build.lock", "image builds"):
        # What a killed build left; we hold the lock, so nobody uses it.
        for leftover in (*work().glob("scratch-*"), *on_their_way().glob("storage*")):
            shutil.rmtree(leftover)
        with tempfile.TemporaryDirectory(dir=work(), prefix="scratch-") as scratch:
            build_all(chosen, images, operator, spark_version, pathlib.Path(scratch))
    return images


def build_all(
    chosen: list[Target], images: list[str], operator: pathlib.Path | None, spark_version: str, scratch: pathlib.Path
) -> None:
    wanted = {name for target in chosen for name in target.contexts}
    contexts = named_contexts(wanted, operator, spark_version, scratch)
    built = [build_one(target, image, contexts, spark_version, scratch) for target, image in zip(chosen, images)]
    if any(built):
        # Removes the working containers of killed builds, and images without a name, except those whose layers the next
        # build can use.
        buildah("rm", "--all")
        buildah("rmi", "--prune")


def build_one(
    target: Target, image: str, contexts: dict[str, "Context"], spark_version: str, scratch: pathlib.Path
) -> bool:
    """Whether there was anything to do."""
    key = digest_of(PROJECT / "Dockerfile", *sorted((PROJECT / "tests" / "tools" / "images").glob("*.sh")),
                    target.name, *(contexts[name].key for name in target.contexts))
    with image_store.store_locked():
        if image in image_store.images() and keys().get(image) == key:
            return False
    for base in target.bases:
        ensure_base(base, scratch)
    given = [f"--build-context={name}={contexts[name].folder}" for name in target.contexts]
    with progress.step(f"building the image {image}", usual=target.usual):
        # One time for all files, so that the same inputs make the same image.
        buildah("build", "--layers", "--timestamp", "0", "--pull-never", "--quiet", "--target", target.name, "--tag", image,
                "--build-arg", f"SPARK_VERSION={spark_version}", *given, str(PROJECT))
        with image_store.store_locked():
            # With the fastest compression: an OCI layout refuses uncompressed layers, and Spark's are jars anyway.
            buildah("push", "--quiet", "--compression-format", "zstd", "--compression-level", "1",
                    image, f"oci:{image_store.store()}:{image}")
            image_store.drop_unused_blobs()
    write_keys(keys() | {image: key})
    return True


def sizes(image: str) -> tuple[int, int]:
    """How many bytes the image takes on a node's disk, unpacked, and how many are fetched for it, compressed."""
    config, layers = image_store.contents(image)
    recorded = json.loads((work() / "buildah" / "overlay-layers" / "layers.json").read_text())
    unpacked = {layer["diff-digest"]: layer["diff-size"] for layer in recorded}
    return sum(unpacked[digest] for digest in config["rootfs"]["diff_ids"]), sum(layer["size"] for layer in layers)


def work() -> pathlib.Path:
    folder = cache() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def on_their_way() -> pathlib.Path:
    """Where buildah has layers while it copies them; Spark's is half a gigabyte."""
    folder = work() / "on-their-way"
    folder.mkdir(exist_ok=True)
    return folder


def keys() -> dict[str, str]:
    """Image name → digest of everything that went into it."""
    file = work() / "built.json"
    return json.loads(file.read_text()) if file.exists() else {}


def write_keys(keys: dict[str, str]) -> None:
    unfinished = work() / ".built.json"
    unfinished.write_text(json.dumps(keys, indent=2))
    unfinished.rename(work() / "built.json")


@dataclasses.dataclass(frozen=True)
class Context:
    folder: pathlib.Path
    key: str  # stands for all that is in the folder


def named_contexts(
    wanted: set[str], operator: pathlib.Path | None, spark_version: str, scratch: pathlib.Path
) -> dict[str, Context]:
    contexts = {}
    if "binary" in wanted:
        folder = scratch / "binary"
        folder.mkdir()
        shutil.copyfile(operator, folder / "spark-operator")
        (folder / "spark-operator").chmod(0o755)
        contexts["binary"] = Context(folder, digest_of(folder / "spark-operator"))
    if "distribution" in wanted:
        contexts["distribution"] = Context(spark.distribution(spark_version), f"spark {spark_version}")
    if "exporters" in wanted:
        folder = spark.exporters(spark.distribution(spark_version))
        contexts["exporters"] = Context(folder, digest_of(*spark.EXPORTERS.values()))
    if "jobs" in wanted:
        key = digest_of(spark_version, *sorted(path for path in JOBS.rglob("*") if path.is_file()))
        folder = cache() / "spark" / f"jobs-{spark_version}-{key[:12]}"
        if not folder.exists():
            unfinished = scratch / "jobs"
            spark.jobs(spark.distribution(spark_version), JOBS, unfinished)
            unfinished.rename(folder)
        contexts["jobs"] = Context(folder, key)
    return contexts


def digest_of(*parts: str | pathlib.Path) -> str:
    whole = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, pathlib.Path) else part.encode()
        name = part.name if isinstance(part, pathlib.Path) else ""
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()


def buildah(*arguments: str) -> None:
    result = try_buildah(*arguments)
    if result.returncode != 0:
        raise SystemExit(f"buildah {arguments[0]} failed:\n{(result.stdout + result.stderr)[-4000:]}")


def try_buildah(*arguments: str) -> subprocess.CompletedProcess:
    # Its own storage, so that the machine's images are neither used nor touched. In a chroot, because a build step
    # that only installs packages needs no container runtime, and in a container it would have no network.
    places = ["--root", str(work() / "buildah"), "--runroot", str(work() / "buildah-run")]
    environment = dict(os.environ, BUILDAH_ISOLATION="chroot", STORAGE_DRIVER="overlay", TMPDIR=str(on_their_way()))
    return subprocess.run(["buildah", *places, *arguments], env=environment, capture_output=True, text=True)


def ensure_base(image: str, scratch: pathlib.Path) -> None:
    """Makes the stand-in of a base image unless buildah has it."""
    if try_buildah("inspect", "--type", "image", image).returncode == 0:
        return
    root = slim_root()
    folder = scratch / "base"
    folder.mkdir()
    if image == DISTROLESS:
        distroless_root(root, folder / "root.tar")
        settings = "USER 65532\nWORKDIR /home/nonroot\n"
    else:
        os.link(root, folder / "root.tar")
        settings = 'CMD ["bash"]\n'
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    (folder / "Dockerfile").write_text(f"FROM scratch\nADD root.tar /\nENV PATH={path}\n{settings}")
    buildah("build", "--quiet", "--timestamp", "0", "--tag", image, str(folder))
    shutil.rmtree(folder)


def slim_root() -> pathlib.Path:
    """Debian's essential packages and apt, with the machine's own package sources; like the public slim image."""
    root = work() / "bookworm-slim.tar"
    if not root.exists():
        unfinished = root.with_name(".bookworm-slim.tar")
        excluded = [f"--dpkgopt=path-exclude=/{path}/*" for path in LEFT_OUT]
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", *excluded, "bookworm", unfinished]
        with progress.step(f"making a stand-in for {SLIM}", usual=20):
            result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(f"mmdebstrap failed:\n{result.stderr[-3000:]}")
        unfinished.rename(root)
    return root


def distroless_root(slim: pathlib.Path, target: pathlib.Path) -> None:
    """The few packages of a distroless image, taken out of the slim one file by file."""
    accounts = {
        "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n"
        "nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
        "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    }
    with tarfile.open(slim) as source, tarfile.open(target, "w") as result:
        wanted = set()
        for package in DISTROLESS_PACKAGES:
            for suffix in ("", ":amd64", ":arm64"):
                try:
                    files = source.extractfile(f"./var/lib/dpkg/info/{package}{suffix}.list")
                except KeyError:
                    continue
                wanted.update(files.read().decode().splitlines())
        for member in source:
            path = "/" + member.name.removeprefix("./").rstrip("/")
            # usrmerge has made links of /lib and the like, which distroless images have as folders.
            is_link = path in ("/bin", "/lib", "/lib64", "/sbin")
            if path in wanted and not is_link and not path.startswith(tuple(f"/{left_out}/" for left_out in LEFT_OUT)):
                result.addfile(member, source.extractfile(member) if member.isreg() else None)
        image_store.add_folder(result, "home/nonroot", 0o700, owner=65532)
        image_store.add_folder(result, "tmp", 0o1777)
        for name, content in accounts.items():
            image_store.add_file(result, name, content.encode())
