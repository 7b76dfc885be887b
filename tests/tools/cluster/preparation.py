"""Makes everything that a demonstration or the tests need, in parallel: what compiles keeps both cores busy, and what is fetched waits for
the network meanwhile."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import threading
import time
import timeit
from collections.abc import Callable
from concurrent import futures
from typing import NoReturn

import axe
import image_builds
import machine
import processes
import programs
import progress
import spark
from layout import cache

# For the whole workspace, as tests are built: see tests/tools/features.
CARGO = ("cargo", "build", "--locked", "--workspace", "--bin", "spark-operator")


def for_demo(spark_version: str) -> pathlib.Path:
    """Builds the cluster's programs, the operator and the images; returns the path of the operator's program."""
    machine.require("demo")
    is_empty = not any(place.exists() for place in (cache() / "target", cache() / "programs"))
    additions = time_additions() if is_empty else None
    programs.install("node", "images")
    operator, *_ = side_by_side(
        build_operator,
        lambda: programs.ensure("node"),
        lambda: image_builds.build(["spark"], None, spark_version),
    )
    if additions is not None:
        record_cost((additions + time_additions()) / 2)
    return operator


def for_tests(spark_version: str) -> None:
    """Makes all that the tests need, except what cargo compiles."""
    programs.install("node", "tests", "watching", "images", "python", "node-packages")
    side_by_side(
        lambda: programs.ensure("node", tests=True),
        lambda: image_builds.build(["spark"], None, spark_version),
        lambda: spark.archived_classes(spark_version, image_builds.JOBS),
        lambda: spark.connect_client(spark_version),
        axe.script,
    )


def side_by_side(*works: Callable[[], object]) -> list:
    """Runs all in parallel and returns their results. If one fails, this process ends at once, so that nobody waits for the others."""
    signal.signal(signal.SIGTERM, lambda *_: abandon(143))
    with futures.ThreadPoolExecutor(len(works)) as pool:
        results = [pool.submit(work) for work in works]
        done, _ = futures.wait(results, return_when=futures.FIRST_EXCEPTION)
        failed = next((result.exception() for result in done if result.exception()), None)
        if failed:
            progress.say(str(failed))
            abandon(1)
    return [result.result() for result in results]


def record_cost(additions: float) -> None:
    """Records the CPU time that an empty cache has cost, as a multiple of `additions`, the CPU time of 20 million additions in seconds; a test
    compares it with the budget."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    cost_file().write_text(json.dumps({"CPU time, as a multiple of that of 20 million additions in Python": round(seconds / additions)}) + "\n")
    progress.say(f"made from an empty cache with {seconds:.0f} CPU seconds; 20 million additions in Python take {additions:.2f} s")


def time_additions() -> float:
    """Returns the CPU time of 20 million additions, in seconds: half a second in Python 3.11, and up to three times as long while other
    virtual machines are busy. This changes within minutes, so the mean of the times before and after long work is the measure of it."""
    return timeit.timeit("x += 1", "x = 0", number=20_000_000, timer=time.process_time)


def cost_file() -> pathlib.Path:
    return cache() / "cost-of-demo.json"


def abandon(code: int) -> NoReturn:
    """Ends this process with everything that its threads have started and would wait for."""
    processes.kill_children()
    os._exit(code)


def build_operator() -> pathlib.Path:
    """Compiles the operator as tests do, and returns the path of its program."""
    tree = ["cargo", "tree", "--locked", "--package", "spark-operator", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]
    listed = subprocess.run(tree, cwd=image_builds.PROJECT, capture_output=True, text=True)
    if listed.returncode != 0:
        raise SystemExit(f"cargo tree failed:\n{listed.stderr[-3000:]}")
    count = len({line.removesuffix(" (*)").removesuffix(" (proc-macro)") for line in listed.stdout.splitlines()})
    seen, path = set(), None
    command = [*CARGO, "--quiet", "--message-format", "json-render-diagnostics"]
    with progress.step("compiling the operator", usual=140, of=count) as step:
        with subprocess.Popen(command, cwd=image_builds.PROJECT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as cargo:
            errors = []
            reader = threading.Thread(target=lambda: errors.append(cargo.stderr.read()))
            reader.start()
            for line in cargo.stdout:
                message = json.loads(line)
                if message["reason"] == "compiler-artifact":
                    seen.add(message["package_id"])
                    step.done = len(seen)
                    path = message.get("executable") or path
            reader.join()
        if cargo.returncode != 0:
            raise SystemExit(f"compiling the operator failed:\n{''.join(errors)[-6000:]}")
    return pathlib.Path(path)
