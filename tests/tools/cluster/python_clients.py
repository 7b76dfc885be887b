"""Fetches third-party Python programs that submit applications and follow them.

They come from PyPI, in the versions of the files in tests/tools/clients. Each is in a folder of its own, since their dependencies conflict.
"""

import hashlib
import pathlib
import shutil

import progress
import spark
from layout import cache, locked

REQUIREMENTS = pathlib.Path(__file__).resolve().parent.parent / "clients"
NAMES = ("airflow", "kubeflow-sdk")


def folder(name: str) -> pathlib.Path:
    """A folder for PYTHONPATH; fetched on first use, and anew when its versions change."""
    requirements = REQUIREMENTS / f"{name}.txt"
    version = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    target = cache() / "clients" / f"{name}-{version}"
    with locked(cache() / "clients" / f".{name}.lock", name):
        if not target.exists():
            with progress.step(f"fetching {name}", usual=120):
                unfinished = target.with_name(f".{target.name}.unfinished")
                shutil.rmtree(unfinished, ignore_errors=True)
                spark.run("pip3", "install", "--quiet", "--target", str(unfinished), "--requirement", str(requirements))
                unfinished.rename(target)
    return target
