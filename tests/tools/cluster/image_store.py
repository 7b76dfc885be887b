"""Keeps built images, and loads them into a cluster's containerd.

They are kept in one OCI image layout in the cache, so that images which share layers (those of several versions of
Spark) keep them once. Loading streams an OCI archive that holds only those layers which containerd lacks: after a
change of a test's job that is the layer of the jobs, and not the gigabyte of Spark below it.
"""

import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

from layout import Cluster, cache, locked

PAUSE = "registry.k8s.io/pause:3.10"
BUSYBOX = "docker.io/library/busybox:stable"

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
REFERENCE = "org.opencontainers.image.ref.name"


def store() -> pathlib.Path:
    return cache() / "images" / "store"


def store_locked(shared: bool = False):
    return locked(cache() / "images" / ".store.lock", "image store", shared)


def blob(digest: str) -> pathlib.Path:
    return store() / "blobs" / digest.replace(":", "/")


def images() -> dict[str, dict]:
    """Image name → descriptor of its manifest."""
    index = store() / "index.json"
    if not index.exists():
        return {}
    manifests = json.loads(index.read_text())["manifests"]
    return {manifest["annotations"][REFERENCE]: manifest for manifest in manifests
            if REFERENCE in manifest.get("annotations", {})}


def contents(image: str) -> tuple[dict, list[dict]]:
    """The image's configuration, and the descriptors of its layers."""
    manifest = json.loads(blob(images()[image]["digest"]).read_text())
    return json.loads(blob(manifest["config"]["digest"]).read_text()), manifest["layers"]


def blobs_of(descriptor: dict) -> list[str]:
    manifest = json.loads(blob(descriptor["digest"]).read_text())
    return [descriptor["digest"], manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]


def drop_unused_blobs() -> None:
    """Deletes the blobs that no present image names: a replaced image leaves its manifest and layers behind."""
    used = {digest for descriptor in images().values() for digest in blobs_of(descriptor)}
    for path in (store() / "blobs" / "sha256").glob("*"):
        if f"sha256:{path.name}" not in used:
            path.unlink()


def ctr(cluster: Cluster, *arguments: str, **options) -> subprocess.CompletedProcess:
    # With a short timeout: while containerd starts, a new attempt succeeds earlier than a long wait.
    command = ["ctr", "--address", str(cluster.containerd_socket), "--connect-timeout", "2s", "-n", "k8s.io"]
    return subprocess.run([*command, *arguments], capture_output=True, **options)


def load(cluster: Cluster, names: list[str]) -> list[str]:
    """Loads these images into the cluster; returns those that the cluster did not have."""
    with store_locked(shared=True):
        known = images()
        missing = [name for name in names if name not in known]
        if missing:
            raise SystemExit(f"not built yet: {', '.join(missing)}")
        listed = ctr(cluster, "images", "ls", text=True)
        if listed.returncode != 0:
            raise SystemExit(f"containerd does not answer:\n{listed.stderr}")
        present = {tuple(line.split()[:3:2]) for line in listed.stdout.splitlines()[1:]}
        wanted = [name for name in names if (name, known[name]["digest"]) not in present]
        if not wanted:
            return []
        contents = set(ctr(cluster, "content", "ls", "-q", text=True).stdout.split())
        command = ["ctr", "--address", str(cluster.containerd_socket), "-n", "k8s.io", "images", "import", "-"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as importer:
            try:
                write_archive(importer.stdin, [known[name] for name in wanted], contents)
                importer.stdin.close()
            except BrokenPipeError:
                pass  # The importer has ended, and says why.
            output = importer.stdout.read().decode(errors="replace")
        if importer.returncode != 0:
            raise SystemExit(f"loading {', '.join(wanted)} failed:\n{output}")
        return wanted


def load_archive(cluster: Cluster, archive: pathlib.Path) -> None:
    """Loads an archive that another program has made; the image's name in it must be fully qualified."""
    result = ctr(cluster, "images", "import", str(archive), text=True)
    if result.returncode != 0:
        raise SystemExit(f"loading {archive} failed:\n{result.stderr}")
    print(result.stdout.strip())


def write_archive(stream, descriptors: list[dict], present: set[str]) -> None:
    """An OCI archive of the images, without the blobs that its reader has."""
    named = [
        descriptor | {"annotations": {"io.containerd.image.name": name, REFERENCE: name.rpartition(":")[2]}}
        for descriptor in descriptors
        for name in [descriptor["annotations"][REFERENCE]]
    ]
    digests = {digest for descriptor in descriptors for digest in blobs_of(descriptor)}
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        for name, content in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
                              ("index.json", {"schemaVersion": 2, "manifests": named})):
            add_file(archive, name, json.dumps(content).encode())
        for digest in sorted(digests - present):
            archive.add(blob(digest), f"blobs/{digest.replace(':', '/')}", filter=plain)


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry without what differs between two machines that build the same."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def write_images(stream, names: dict[str, str | None]) -> None:
    """An OCI archive of these images, under the names that they are mapped to, if any."""
    with store_locked():
        known = images()
        renamed = [
            descriptor | {"annotations": {REFERENCE: published or name}}
            for name, published in names.items()
            for descriptor in [known[name]]
        ]
        write_archive(stream, renamed, set())


def add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def add_folder(archive: tarfile.TarFile, name: str, mode: int = 0o755, owner: int = 0) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
    archive.addfile(entry)


def base_images() -> list[str]:
    """The pod sandbox's image and a busybox, both made of Debian's static busybox; made once."""
    with store_locked():
        if not {PAUSE, BUSYBOX} <= images().keys():
            layer = busybox_layer()
            put_image(PAUSE, layer, {"Entrypoint": ["/bin/sleep", "2147483647"]})
            put_image(BUSYBOX, layer, {"Cmd": ["sh"], "Env": ["PATH=/bin"]})
    return [PAUSE, BUSYBOX]


def busybox_layer() -> bytes:
    program = pathlib.Path(shutil.which("busybox"))
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            add_folder(archive, folder, mode)
        add_file(archive, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        add_file(archive, "bin/busybox", program.read_bytes(), 0o755)
        for applet in applets:
            if applet != "busybox":
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(entry)
    return content.getvalue()


def put_image(name: str, layer: bytes, config: dict) -> None:
    (store() / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)

    def put(data: bytes, media_type: str) -> dict:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blob(digest).write_bytes(data)
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    layers = [put(layer, "application/vnd.oci.image.layer.v1.tar")]
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    image = {"architecture": architecture, "os": "linux", "config": config,
             "rootfs": {"type": "layers", "diff_ids": [layers[0]["digest"]]}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": put(json.dumps(image).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": layers,
    }
    descriptor = put(json.dumps(manifest).encode(), MANIFEST) | {"annotations": {REFERENCE: name}}
    (store() / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    others = [other for known, other in images().items() if known != name]
    unfinished = store() / "index.json.unfinished"
    unfinished.write_text(json.dumps({"schemaVersion": 2, "manifests": [*others, descriptor]}))
    unfinished.rename(store() / "index.json")
