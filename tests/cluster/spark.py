"""Where does Spark come from when there is neither a registry of images nor a download mirror?

From its package on PyPI: the source archive holds the jars with the Kubernetes back end, the launch scripts and the
Python examples. It lacks the container entrypoint and SparkPi; tests/images has our own.
"""

import os
import pathlib
import shutil
import subprocess

from layout import cache, locked
from progress import say

VERSION = "4.0.1"

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
    say(f"fetching Spark {version}")
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


def jobs(distribution: pathlib.Path, sources: pathlib.Path, target: pathlib.Path) -> None:
    """The test jobs as they lie under /opt/spark/examples: Java compiled against this Spark, Python as it is."""
    classes = target / "classes"
    classes.mkdir(parents=True)
    java = sorted(str(path) for path in sources.glob("java/**/*.java"))
    run("javac", "--release", "17", "-nowarn", "-cp", f"{distribution}/jars/*", "-d", str(classes), *java)
    (target / "jars").mkdir()
    run("jar", "--create", "--file", str(target / "jars" / "spark-examples.jar"), "-C", str(classes), ".")
    shutil.rmtree(classes)
    shutil.copytree(sources / "python", target / "src/main/python")


def run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C.UTF-8"))
    if result.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{(result.stdout + result.stderr)[-3000:]}")
