"""The cases of recordings, and how they are read.

A case is the input of a spark-submit: command line, environment, files, and the API server's failures. There is no list of
cases: every recording contains its case, so that the recordings of one version of Spark are the cases for the next.

A recording is a file of its own, as the recorder writes it (`4.0.1/pvc.json`), or is in a file with all others of its
version (`4.0.1.json`, written by `keep`), where a text of several lines is a list of lines: a diff shows which has changed.
"""

import dataclasses
import fnmatch
import json
import pathlib
import re

# The placeholder in recordings for the folder in which spark-submit runs; @WORK@ in the files of the first recorder.
WORK = re.compile(r"\$WORK|@WORK@")
# The placeholder in recordings for the content of a file that is not text, and the content that is written for it.
BINARY = "<binary>"
NO_TEXT = b"\xff\x00"

MASTER = "k8s://http://127.0.0.1:6443"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    command: list[str]  # of which the first is the program
    env: dict[str, str]
    files: dict[str, str]  # by path below the work folder
    injected_failures: list[dict]

    def __post_init__(self):
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise SystemExit(f"case {self.name!r}: it becomes the name of a file: use letters, digits, '-', '_', '.'")
        for path in map(pathlib.PurePath, self.files):
            if path.is_absolute() or ".." in path.parts:
                raise SystemExit(f"case {self.name}: file {path} has to be below the work folder: give a path in it")

    @classmethod
    def recorded(cls, recording: dict, place: str) -> "Case":
        """The case of a recording; `place` says in errors which one it is."""
        try:
            env, files = recording.get("env", {}), recording.get("files", {})
            failures = recording.get("injected_failures", [])
            # Wrong types must be reported here, not in the middle of a run.
            "".join([*recording["command"], *env.values(), *files.values()])
            if not all({"method", "path", "code"} <= failure.keys() for failure in failures):
                raise ValueError("an injected failure lacks its method, path or code")
            return cls(recording["case"], recording["command"], env, files, failures)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SystemExit(f"{place} is no recording: {error!r}")

    @classmethod
    def new(cls, name: str, arguments: list[str], env: dict[str, str], files: dict[str, str]) -> "Case":
        command = ["$SPARK_HOME/bin/spark-submit", "--master", MASTER, "--deploy-mode", "cluster", *arguments]
        return cls(name, command, env, files, [])

    def placed(self, port: int, work: pathlib.Path) -> "Case":
        """The same case with our API server and our work folder instead of those of its recorder."""
        masters = (re.match(r"k8s://http://127\.0\.0\.1:(\d+)$", argument) for argument in self.command)
        theirs = next((master[1] for master in masters if master), None)

        def place(text: str) -> str:
            text = WORK.sub(lambda _: str(work), text)
            return re.sub(rf"\b127\.0\.0\.1:{theirs}\b", f"127.0.0.1:{port}", text) if theirs else text

        return dataclasses.replace(
            self,
            command=[place(argument) for argument in self.command],
            env={name: place(value) for name, value in self.env.items()},
            files={path: place(text) for path, text in self.files.items()},
        )

    def write_files(self, work: pathlib.Path) -> None:
        for path, text in self.files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(NO_TEXT if text == BINARY else text.encode())


def recordings(folder: pathlib.Path) -> list[tuple[str, str, dict]]:
    """Version, case's name and content of every recording in a folder, by version and name."""
    found = []
    for path in sorted(folder.glob("*.json")):
        found += [(path.stem, str(name_of(case, path)), lines_joined(case)) for case in read(path, list)]
    found += [(path.parent.name, path.stem, read(path, dict)) for path in sorted(folder.glob("*/*.json"))]
    return sorted(found, key=lambda recording: (numbers(recording[0]), recording[1]))


def read(path: pathlib.Path, kind: type) -> list | dict:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be read: {error}")
    if not isinstance(content, kind):
        raise SystemExit(f"{path} is no recording: a {kind.__name__} was expected")
    return content


def name_of(case: dict, path: pathlib.Path) -> str:
    try:
        return case["case"]
    except (KeyError, TypeError) as error:
        raise SystemExit(f"{path} has a recording without a name: {error!r}")


def lines_joined(case: dict) -> dict:
    """A recording whose texts of several lines may be lists of lines, with texts."""
    def joined(texts):
        return {name: "\n".join(text) if isinstance(text, list) else text for name, text in texts.items()}

    whole = case | {"exchanges": [dict(exchange) for exchange in case["exchanges"]]}
    for exchange in whole["exchanges"]:
        if isinstance(exchange["body"], dict) and isinstance(exchange["body"].get("data"), dict):
            exchange["body"] = exchange["body"] | {"data": joined(exchange["body"]["data"])}
    if "files" in case:
        whole["files"] = joined(case["files"])
    if "stderr_tail" in case:
        whole |= joined({"stderr_tail": case["stderr_tail"]})
    return whole


def recorded_cases(folder: pathlib.Path, patterns: str) -> list[Case]:
    """Every case whose name matches one of the patterns, once, from the recording of the newest version."""
    newest = {name: (f"{folder}: {name} of Spark {version}", recording) for version, name, recording in recordings(folder)}
    wanted = [name for pattern in patterns.split(",") for name in fnmatch.filter(newest, pattern)]
    if not wanted:
        raise SystemExit(f"none of the {len(newest)} cases in {folder} matches {patterns!r}")
    return [Case.recorded(newest[name][1], newest[name][0]) for name in sorted(set(wanted))]


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
