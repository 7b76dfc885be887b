"""What does a process see of the pod that it runs in? Looks around on the driver and on an executor.

Prints one line: `saw: {"driver": {…}, "executor": {…}, …}`. What is not there is said, not failed on: the test judges.
"""

import errno
import json
import os
import pathlib
import socket
import time

from pyspark.sql import SparkSession

FILES = {
    "hadoop": "/etc/hadoop/conf/core-site.xml",
    "spark": "/etc/spark/conf/log4j2.properties",
    "config map": "/mnt/settings/settings.ini",
    "secret": "/mnt/secret/password",
    "part of a secret": "/mnt/user.txt",
    "downward": "/mnt/downward/role",
    "init container": "/mnt/shared/init",
    "post start": "/mnt/shared/post-start",
}
VARIABLES = [
    "LITERAL", "REFERRING", "ESCAPED", "POD_NAME", "FROM_SECRET", "MEMORY_LIMIT", "SPARK_USER",
    "MAP_COLOUR", "SECRET_SHAPE", "HADOOP_CONF_DIR", "SPARK_CONF_DIR",
]
FOLDERS = {"shared": "/mnt/shared", "read-only mount": "/mnt/secret", "tmp": "/tmp", "root": "/opt/spark"}
NAMES = ["gateway.customized.test", "store.customized.test"]


def content(path):
    # A hook and a sidecar start beside us.
    for _ in range(300):
        try:
            return pathlib.Path(path).read_text().strip()
        except FileNotFoundError:
            time.sleep(0.1)
    return "missing"


def written(folder):
    file = pathlib.Path(folder, "look-around")
    try:
        file.write_text("was here")
    except OSError as error:
        return errno.errorcode[error.errno]
    file.unlink()
    return "writable"


def address(name):
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        return str(error)


def own_address():
    # Nothing is sent: UDP only looks up the way.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["KUBERNETES_SERVICE_HOST"], 9))
        return probe.getsockname()[0]


def processes():
    """The arguments of every process that can be seen, by its id."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                pass  # It has ended since.
    return found


def sidecar():
    content("/mnt/shared/sidecar")
    for process, arguments in processes().items():
        if "customized-sidecar" in arguments:
            return {"uid": os.stat(f"/proc/{process}").st_uid}
    return "not running"


def resolver():
    lines = [line.split() for line in content("/etc/resolv.conf").splitlines()]
    return {key: sorted(word for line in lines if line[:1] == [key] for word in line[1:]) for key in ("search", "options")}


def memory_limit():
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(file):
            return content(file)
    return "no cgroup"


def look_around():
    status = dict(line.split(":\t", 1) for line in content("/proc/self/status").splitlines() if ":\t" in line)
    return {
        "files": {name: content(path) for name, path in FILES.items()},
        "env": {name: os.environ.get(name, "missing") for name in VARIABLES},
        "folders": {name: written(path) for name, path in FOLDERS.items()},
        "addresses": {name: address(name) for name in NAMES},
        "finds services": address("kubernetes.default.svc") == os.environ["KUBERNETES_SERVICE_HOST"],
        "own address": own_address(),
        "resolver": resolver(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": sorted(os.getgroups()),
        "group of shared": os.stat("/mnt/shared").st_gid,
        "capabilities": status["CapEff"],
        "no new privileges": status["NoNewPrivs"],
        "seccomp": status["Seccomp"],
        "sidecar": sidecar(),
        "Spark is the first process": "tini" in processes()[1][0],
        "memory limit": memory_limit(),
    }


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    context = session.sparkContext
    saw = {
        "driver": look_around(),
        "executor": context.parallelize([()], 1).map(lambda _: look_around()).first(),
        "hadoop configuration": context._jsc.hadoopConfiguration().get("customized.greeting"),
        "spark user": context.sparkUser(),
    }
    print("saw:", json.dumps(saw))
    session.stop()
