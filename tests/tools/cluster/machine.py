"""Checks whether this machine can run the demonstration or the tests.

Everything that it lacks is reported at once, before anything is compiled.
"""

import os
import pathlib
import re
import shutil
import subprocess

import programs
from layout import cache

GB = 1_000_000_000

# program → how to get it. Programs of Debian packages are not listed: they are installed.
TOOLS = {
    "cargo": "Rust, by rustup (https://rustup.rs)",
    "cc": "a C compiler and linker (on Debian: apt-get install build-essential)",
    "go": "Go 1.24 or later (https://go.dev/dl)",
    "java": "Java 17 (on Debian: apt-get install openjdk-17-jre-headless)",
}
OLDEST_GO = (1, 24)

# What is kept below the cache, in GB, measured and rounded up. A part that exists already needs no more disk space.
PARTS = {
    "demo": {"target": 1.5, "go": 3.5, "programs": 0.7, "images": 4, "spark": 0.6, "clusters": 0.5},
    "tests": {"target": 4, "go": 4, "programs": 0.7, "images": 4, "spark": 0.6, "clusters": 2},
}
# GiB. A node with all its components and a Spark application takes 3; rustc and the linker take 2 beside Go's compilers.
MEMORY = {"demo": 4, "tests": 6}


def require(purpose: str) -> None:
    """Ends the program with a list of everything that the machine lacks for `demo` or `tests`."""
    if lacking := [*missing_tools(), *missing_room(purpose), *missing_memory(purpose)]:
        raise SystemExit("this machine lacks:\n" + "".join(f"  - {each}\n" for each in lacking).rstrip())


def missing_tools() -> list[str]:
    lacking = [f"{name}: {where}" for name, where in TOOLS.items() if not shutil.which(name)]
    if shutil.which("go") and (version := go_version()) < OLDEST_GO:
        lacking.append(f"go: this is Go {'.'.join(map(str, version))}; needed is {TOOLS['go']}")
    if os.geteuid() != 0:
        lacking.append("root: the cluster makes a network namespace, mounts and cgroups (sudo make …)")
    packages = programs.missing_packages("api", "node", "images")
    if packages and not shutil.which("apt-get"):
        lacking.append(f"apt-get, by which these Debian packages would be installed: {' '.join(packages)}")
    return lacking


def go_version() -> tuple[int, ...]:
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else OLDEST_GO  # A development version has another form.


def missing_room(purpose: str) -> list[str]:
    place = cache()
    wanted = sum(size for part, size in PARTS[purpose].items() if not (place / part).exists())
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / GB
    if free >= wanted:
        return []
    return [f"disk: {wanted:.1f} GB are needed and {free:.1f} GB are free for {cache()} (XDG_CACHE_HOME sets another place)"]


def missing_memory(purpose: str) -> list[str]:
    text = pathlib.Path("/proc/meminfo").read_text()
    available = int(re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)[1]) / 2**20
    wanted = MEMORY[purpose]
    return [] if available >= wanted else [f"memory: {wanted} GiB are needed and {available:.1f} GiB are available"]
