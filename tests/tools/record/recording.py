"""Records one case.

spark-submit has an environment, a home and a folder of the case's own instead of the caller's, and no network except
loopback (`isolate`). It never outlives this process: the kernel kills it when this process has ended.
"""

import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import api_server
from case import Case

# The timeout of a submission, which takes 2 or 3 seconds on an idle machine.
SECONDS = 120
CLONE_NEWNET = 0x40000000


class Unfinished(Exception):
    pass


def isolate() -> None:
    """Leaves the machine's network for one with only loopback, so that no master or jar of a case can be reached outside."""
    libc = ctypes.CDLL(None, use_errno=True)  # os.unshare came with Python 3.12; Debian 12 has 3.11.
    if libc.unshare(CLONE_NEWNET) != 0:
        raise SystemExit(f"no network of its own for spark-submit: {os.strerror(ctypes.get_errno())}; run as root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def version(spark_home: pathlib.Path) -> str:
    """Spark's own name of its version, which may differ from that of PyPI (4.1.0-preview1, 4.1.0.dev1)."""
    jars = " ".join(path.name for path in spark_home.glob("jars/spark-core_*"))
    jar = re.fullmatch(r"spark-core_[\d.]+-(\S+)\.jar", jars)
    if not jar:
        raise SystemExit(f"{spark_home} is no Spark: one jars/spark-core_*.jar was expected, not {jars!r}")
    return jar[1]


def record(case: Case, spark_home: pathlib.Path, target: pathlib.Path) -> dict:
    """Runs the case and writes the recording into the folder `target`."""
    work = target / ".work"
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    work.mkdir(parents=True)
    try:
        with api_server.serving(case.injected_failures) as server:
            placed = case.placed(server.port, work)
            placed.write_files(work)
            exit_code, stderr = run(placed, spark_home, work)
            exchanges = list(server.exchanges)
    finally:
        shutil.rmtree(work)
    recording = {
        "case": case.name,
        "spark_version": version(spark_home),
        "command": placed.command,
        "env": placed.env,
        "files": placed.files,
        "injected_failures": case.injected_failures,
        "exit_code": exit_code,
        "exchanges": exchanges,
        "stderr_tail": stderr[-16000:],
    }
    text = json.dumps(recording, indent=1, ensure_ascii=False)
    text = text.replace(str(work), "$WORK").replace(str(spark_home), "$SPARK_HOME")
    unfinished = target / f".{case.name}.unfinished"
    unfinished.write_text(text + "\n")
    unfinished.rename(target / f"{case.name}.json")
    return recording


def run(case: Case, spark_home: pathlib.Path, work: pathlib.Path) -> tuple[int, str]:
    command = [str(spark_home / "bin/spark-submit"), *case.command[1:]]
    # Without a locale the JVM would lose letters of its command line; a case about that sets its own locale.
    plain = {"PATH": os.environ["PATH"], "HOME": str(work), "LANG": "C.UTF-8", "SPARK_HOME": str(spark_home)}
    plain |= {name: os.environ[name] for name in ["JAVA_HOME"] if name in os.environ}
    with tempfile.TemporaryFile() as stderr:
        # Every script up to the JVM replaces its process by the next one (exec), so that the signal at our end reaches the JVM.
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command], env=plain | case.env, cwd=work, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Unfinished(f"is not finished after {SECONDS} s")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # It leads its session, and is not reaped: the id is its own.
                process.wait()
        stderr.seek(0)
        return process.returncode, stderr.read().decode(errors="replace")
