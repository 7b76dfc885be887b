"""Fetches axe-core, which finds what a page lacks for people who do not see it.

It comes from npm, in one version with a known hash.
"""

import base64
import hashlib
import pathlib
import tarfile
import tempfile

import progress
import spark
from layout import cache, locked

VERSION = "4.10.3"
INTEGRITY = "sha512-Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="


def script() -> pathlib.Path:
    """The path of the script; fetched on first use."""
    target = cache() / "programs" / f"axe-core-{VERSION}" / "axe.min.js"
    with locked(cache() / "programs" / ".axe.lock", "axe-core"):
        if not target.exists():
            with progress.step(f"fetching axe-core {VERSION}", usual=5), tempfile.TemporaryDirectory() as folder:
                spark.run("npm", "pack", "--silent", f"axe-core@{VERSION}", "--pack-destination", folder)
                archive = pathlib.Path(folder) / f"axe-core-{VERSION}.tgz"
                found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
                if found != INTEGRITY:
                    raise SystemExit(f"axe-core {VERSION} has another hash than expected: {found}")
                with tarfile.open(archive) as packed:
                    text = packed.extractfile("package/axe.min.js").read()
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished = target.with_suffix(".unfinished")
            unfinished.write_bytes(text)
            unfinished.rename(target)
    return target
