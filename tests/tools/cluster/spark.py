"""Fetches Spark without an image registry and without a download mirror.

It comes from its package on PyPI: the source archive holds the jars with the Kubernetes back end, the launch scripts and the
Python examples. It lacks the container entrypoint and SparkPi; tests/tools/images has our own. The exporters that make its
metrics Prometheus' come from Maven Central, by the Ivy among Spark's jars.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import progress
from layout import cache, locked

VERSION = "4.0.1"

# version of the Prometheus JMX exporter → SHA-256 of its agent: the one in all examples for Kubeflow's operator, and one of the
# present line, which gives counters other names.
EXPORTERS = {
    "0.11.0": "0c8e2f7b9753fd540c17546bf1a6bfdbb39747493e02ea8ad8566097607c0c2d",
    "1.0.1": "7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1",
}

# The dependencies of pyspark's client of Spark Connect. line of Spark → those for gRPC, in the oldest versions that the line accepts.
CLIENTS = {
    "4.0": ("googleapis-common-protos==1.65.0", "grpcio==1.67.0", "grpcio-status==1.67.0"),
    "4.1": ("googleapis-common-protos==1.71.0", "grpcio==1.76.0", "grpcio-status==1.76.0", "protobuf==6.33.0", "zstandard==0.25.0"),
}
# The dependencies that all lines have.
CLIENT = ("pandas==2.2.3", "py4j==0.10.9.9", "pyarrow==18.1.0")

# part of the source archive → its place in a distribution
PLACES = {
    "deps/bin": "bin",
    "deps/sbin": "sbin",
    "deps/jars": "jars",
    "deps/data": "data",
    "deps/licenses": "licenses",
    "deps/examples": "examples/src/main/python",
    "pyspark": "python/pyspark",
    "lib": "python/lib",
}


def distribution(version: str) -> pathlib.Path:
    """An unpacked Spark distribution, usable as SPARK_HOME; fetched on first use."""
    target = cache() / "spark" / version
    with locked(cache() / "spark" / f".{version}.lock", f"Spark {version}"):
        if not target.exists():
            unfinished = target.with_name(f".{version}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            assemble(version, unfinished)
            unfinished.rename(target)
    return target


def assemble(version: str, target: pathlib.Path) -> None:
    with progress.step(f"fetching Spark {version}", usual=25):
        unpack(version, target)


def unpack(version: str, target: pathlib.Path) -> None:
    target.mkdir(parents=True)
    # PyPI has no wheel of pyspark, so no other form can come; --no-binary says so for mirrors that build some.
    command = ["pip3", "download", "--quiet", "--no-deps", "--no-binary", "pyspark", f"pyspark=={version}"]
    result = subprocess.run([*command, "--dest", target], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"fetching Spark {version} failed:\n{result.stderr[-3000:]}")
    (archive,) = target.glob("pyspark-*.tar.gz")
    sources = target / "sources"
    sources.mkdir()
    run("tar", "--extract", "--no-same-owner", "--strip-components=1", "-C", str(sources), "--file", str(archive))
    archive.unlink()
    for part, place in PLACES.items():
        if (sources / part).exists():
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            (sources / part).rename(target / place)
    shutil.rmtree(sources)
    for script in (*target.glob("bin/*"), *target.glob("sbin/*")):
        script.chmod(0o755)
    (target / "conf").mkdir()
    (target / "RELEASE").write_text(f"Spark {version}, assembled from its PyPI package\n")


def connect_client(version: str) -> pathlib.Path:
    """A folder for PYTHONPATH: pyspark, and what its client of Spark Connect needs; fetched on first use."""
    home = distribution(version)
    target = home.with_name(f"client-{version}")
    with locked(home.with_name(f".client-{version}.lock"), f"client of Spark Connect {version}"):
        if not target.exists():
            with progress.step(f"fetching what a client of Spark Connect {version} needs", usual=20):
                unfinished = home.with_name(f".client-{version}.unfinished")
                shutil.rmtree(unfinished, ignore_errors=True)
                packages = (*CLIENT, *CLIENTS.get(version.rpartition(".")[0], CLIENTS["4.0"]))
                run("pip3", "install", "--quiet", "--only-binary", ":all:", "--target", str(unfinished), *packages)
                (unfinished / "pyspark").symlink_to(home / "python" / "pyspark")
                unfinished.rename(target)
    return target


def jobs(distribution: pathlib.Path, sources: pathlib.Path, target: pathlib.Path) -> None:
    """The test jobs in the layout of /opt/spark/examples: Java compiled against this Spark, Python as it is."""
    classes = target / "classes"
    classes.mkdir(parents=True)
    java = sorted(str(path) for path in sources.glob("java/**/*.java"))
    run("javac", "--release", "17", "-nowarn", "-cp", f"{distribution}/jars/*", "-d", str(classes), *java)
    (target / "jars").mkdir()
    run("jar", "--create", "--file", str(target / "jars" / "spark-examples.jar"), "-C", str(classes), ".")
    shutil.rmtree(classes)
    shutil.copytree(sources / "python", target / "src/main/python")


def archived_classes(version: str, sources: pathlib.Path) -> pathlib.Path:
    """The JVM's archive of the classes that submissions with this distribution need, made on first use, beside the distribution."""
    home = distribution(version)
    target = home.with_name(f"classes-{version}.jsa")
    with locked(home.with_name(f".classes-{version}.lock"), f"classes of Spark {version}"):
        if not target.exists():
            with progress.step(f"archiving the classes of Spark {version}", usual=20), tempfile.TemporaryDirectory() as folder:
                jobs(home, sources, pathlib.Path(folder) / "jobs")
                unfinished = target.with_name(f".{target.name}")
                unfinished.unlink(missing_ok=True)
                script = sources.with_name("archive-classes.sh")
                run(str(script), f"{folder}/jobs/jars/spark-examples.jar", str(unfinished), SPARK_HOME=str(home))
                unfinished.rename(target)
    return target


def exporters(distribution: pathlib.Path) -> pathlib.Path:
    """A folder with the agents of all exporters, under their names in Maven Central; fetched on first use."""
    target = cache() / "exporters" / "-".join(EXPORTERS)
    with locked(cache() / "exporters" / ".lock", "Prometheus exporters"):
        if not target.exists():
            unfinished = target.with_name(f".{target.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            for version, expected in EXPORTERS.items():
                with progress.step(f"fetching the Prometheus JMX exporter {version}", usual=5):
                    fetch("io.prometheus.jmx", "jmx_prometheus_javaagent", version, expected, distribution, unfinished)
            unfinished.rename(target)
    return target


def fetch(group: str, artifact: str, version: str, expected: str, distribution: pathlib.Path, folder: pathlib.Path) -> None:
    """Puts a jar of Maven Central into the folder, if it is the expected one."""
    (ivy,) = distribution.glob("jars/ivy-*.jar")
    pattern = str(folder / "[artifact]-[revision].[ext]")
    run("java", "-jar", str(ivy), "-cache", str(cache() / "exporters" / "ivy"), "-notransitive", "-dependency", group, artifact, version,
        "-retrieve", pattern, "-types", "jar", "bundle")
    jar = folder / f"{artifact}-{version}.jar"
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != expected:
        raise SystemExit(f"{jar.name} from Maven Central is not the expected one: its SHA-256 is {found}")


def run(*command: str, **environment: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C.UTF-8", **environment))
    if result.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{(result.stdout + result.stderr)[-3000:]}")
