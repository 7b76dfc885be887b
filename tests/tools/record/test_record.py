#!/usr/bin/env python3
"""Unit tests of the recorder: cases are adapted to this machine, requests are recorded unchanged, and nothing outlives the recorder."""

import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "cluster"))

import api_server
import processes
import recording
from case import BINARY, Case, recorded_cases, recordings

PODS = "/api/v1/namespaces/default/pods"
SERVICE = "/api/v1/namespaces/default/services/app-svc"
APPLY = "application/apply-patch+yaml"
RECORDINGS = HERE.parents[1] / "data/recordings"


def case(*arguments, **rest) -> Case:
    return Case.new("tiny", list(arguments), rest.get("env", {}), rest.get("files", {}))


class ApiServer(unittest.TestCase):
    def serve(self, *failures):
        serving = api_server.serving(list(failures))
        self.server = serving.__enter__()
        self.addCleanup(serving.__exit__, None, None, None)

    def ask(self, method, path, document=None, content_type="application/json", **options):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        sent = document if document is None or isinstance(document, (bytes, list)) else json.dumps(document)
        connection.request(method, path, sent, {"Content-Type": content_type}, **options)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text)

    def test_a_request_is_recorded_unchanged_and_answered_with_a_uid(self):
        self.serve()
        pod = {"kind": "Pod", "metadata": {"name": "tök"}}
        status, made = self.ask("POST", PODS, pod)
        self.assertEqual((status, made["metadata"]["namespace"]), (201, "default"))
        self.assertTrue(made["metadata"]["uid"])
        self.ask("PATCH", f"{SERVICE}?fieldManager=fabric8&force=true", {"metadata": {}}, APPLY)
        created = {
            "method": "POST", "path": PODS, "query": {}, "content_type": "application/json", "body": pod, "status": 201,
        }
        applied = {
            "method": "PATCH", "path": SERVICE, "query": {"fieldManager": "fabric8", "force": "true"},
            "content_type": APPLY, "body": {"metadata": {}}, "status": 201,
        }
        self.assertEqual(self.server.exchanges, [created, applied])

    def test_a_body_in_chunks_is_read(self):
        self.serve()
        chunks = [b'{"metadata": ', b'{"name": "app"}}']
        self.assertEqual(self.ask("POST", PODS, chunks, encode_chunked=True)[0], 201)
        self.assertEqual(self.server.exchanges[0]["body"], {"metadata": {"name": "app"}})

    def test_an_object_is_created_once_applied_again_and_deleted(self):
        self.serve()
        pod = {"metadata": {"name": "app"}}
        self.assertEqual([self.ask("POST", PODS, pod)[0] for _ in range(2)], [201, 409])
        self.assertEqual([self.ask("PATCH", SERVICE, {}, APPLY)[0] for _ in range(2)], [201, 200])
        self.assertEqual([self.ask("DELETE", f"{PODS}/app")[0] for _ in range(2)], [200, 404])
        self.assertEqual(self.ask("GET", f"{PODS}/app")[0], 404)

    def test_a_watch_of_the_driver_reports_its_success(self):
        self.serve()
        self.ask("POST", PODS, {"metadata": {"name": "app"}})
        _, event = self.ask("GET", f"{PODS}?fieldSelector=metadata.name%3Dapp&watch=true")
        self.assertEqual((event["type"], event["object"]["status"]["phase"]), ("ADDED", "Succeeded"))

    def test_a_failure_is_injected_as_often_as_configured(self):
        self.serve({"method": "POST", "path": "/pods$", "code": 429, "times": 2})
        pod = {"metadata": {"name": "app"}}
        self.assertEqual([self.ask("POST", PODS, pod)[0] for _ in range(3)], [429, 429, 201])
        self.assertEqual([exchange["status"] for exchange in self.server.exchanges], [429, 429, 201])

    def test_nonsense_is_recorded_and_refused(self):
        self.serve()
        self.assertEqual(self.ask("POST", PODS, b"\xffno JSON")[0], 422)
        self.assertEqual(self.ask("GET", "/version")[0], 404)
        self.assertEqual(self.ask("PUT", SERVICE, {})[0], 404)
        self.assertEqual([exchange["body"] for exchange in self.server.exchanges], ["\ufffdno JSON", None, {}])


class Cases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, version, name, **changed):
        path = self.folder / version / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"case": name, "command": [version]} | changed))
        return path

    def test_our_server_and_folder_replace_those_of_the_recorder(self):
        theirs = case(
            "--jars", "http://127.0.0.1:6443/a.jar,http://127.0.0.1:64430/b.jar",
            "--master", "k8s://HTTP://127.0.0.1:6443", "file://$WORK/main.py",
            env={"SPARK_CONF_DIR": "$WORK/conf"}, files={"ivy.xml": "root=@WORK@/repo"},
        )
        ours = theirs.placed(7, pathlib.Path("/w"))
        self.assertEqual(ours.command[1:], [
            "--master", "k8s://http://127.0.0.1:7", "--deploy-mode", "cluster",
            "--jars", "http://127.0.0.1:7/a.jar,http://127.0.0.1:64430/b.jar", "--master", "k8s://HTTP://127.0.0.1:7",
            "file:///w/main.py",
        ])
        self.assertEqual((ours.env, ours.files), ({"SPARK_CONF_DIR": "/w/conf"}, {"ivy.xml": "root=/w/repo"}))

    def test_a_binary_file_is_replaced_by_another_binary_file(self):
        case(files={"conf/a.bin": BINARY, "conf/b.txt": "ö"}).write_files(self.folder)
        self.assertEqual((self.folder / "conf/b.txt").read_text(), "ö")
        with self.assertRaises(UnicodeDecodeError):
            (self.folder / "conf/a.bin").read_text()

    def test_the_newest_recording_of_each_case_is_taken(self):
        for version, name in (("4.9.1", "a"), ("4.10.0", "a"), ("4.9.1", "b"), ("4.9.1", "c")):
            self.write(version, name)
        found = [(case.name, case.command) for case in recorded_cases(self.folder, "a,b*,?")[:2]]
        self.assertEqual(found, [("a", ["4.10.0"]), ("b", ["4.9.1"])])
        with self.assertRaisesRegex(SystemExit, "none of the 3 cases"):
            recorded_cases(self.folder, "d,ab")

    def test_a_file_that_is_no_recording_is_refused_with_its_name(self):
        failures = [{"code": 403}]
        for changed in ({"command": 1}, {"env": []}, {"files": {"a": 1}}, {"injected_failures": failures}):
            self.write("1", "a", **changed)
            with self.subTest(changed), self.assertRaisesRegex(SystemExit, "a of Spark 1 is no recording"):
                recorded_cases(self.folder, "a")

    def test_nothing_is_written_outside_of_the_folders(self):
        for file in ("/etc/x", "a/../../x"):
            with self.assertRaisesRegex(SystemExit, "has to be below the work folder"):
                case(files={file: ""})
        with self.assertRaisesRegex(SystemExit, "becomes the name of a file"):
            Case.new("../x", [], {}, {})

    def test_every_committed_recording_contains_a_case(self):
        names = [case.name for case in recorded_cases(RECORDINGS, "*")]
        self.assertEqual(names, sorted({name for _, name, _ in recordings(RECORDINGS)}))
        self.assertGreater(len(names), 200)

    def test_a_kept_recording_is_the_same_after_its_texts_were_split(self):
        command, kept = [str(HERE / "keep"), self.folder / "made", self.folder / "kept"], self.folder / "kept/4.0.json"
        properties = {"spark.properties": "#\na=1\n", "x": "y"}
        exchange = {"method": "POST", "path": "/x", "status": 201, "body": {"data": properties}}
        for name in ("b", "a"):
            path = self.folder / "made/4.0" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({
                "case": name, "spark_version": "4.0", "command": [name], "env": {}, "files": {"f": "1\n2"},
                "injected_failures": [], "exit_code": 1, "exchanges": [exchange, exchange | {"method": "GET"}],
                "stderr_tail": "Error: 1\n\tat Error\nno\nException 2",
            }))
            subprocess.run(command, check=True)
            path.unlink()  # a recording that was kept earlier stays
        cases = json.loads(kept.read_text())
        self.assertEqual([case["case"] for case in cases], ["a", "b"])
        self.assertEqual(cases[0]["exchanges"][0]["body"]["data"], {"spark.properties": ["#", "a=1", ""], "x": "y"})
        self.assertEqual(cases[0]["stderr_tail"], ["Error: 1", "Exception 2"])
        [(version, name, case), _] = recordings(self.folder / "kept")
        self.assertEqual((version, name, case["files"], case["stderr_tail"]), ("4.0", "a", {"f": "1\n2"}, "Error: 1\nException 2"))
        self.assertEqual([exchange["body"]["data"] for exchange in case["exchanges"]], [properties])


class Recording(unittest.TestCase):
    """With a spark-submit that is a few lines of shell."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.target, self.home = self.folder / "recordings", self.folder / "spark"

    def submits(self, script):
        files = {"bin/spark-submit": f"#!/bin/sh\n{script}\n", "jars/spark-core_2.13-9.1.0-rc1.jar": ""}
        for place, text in files.items():
            (self.home / place).parent.mkdir(parents=True, exist_ok=True)
            (self.home / place).write_text(text)
            (self.home / place).chmod(0o755)

    def test_a_recording_contains_no_path_of_this_machine(self):
        self.submits('cat $WHERE/in; echo "Error: $PWD $SPARK_HOME $HOME $CALLER $5" >&2; exit 3')
        os.environ["CALLER"] = "of the caller"
        self.addCleanup(os.environ.pop, "CALLER")
        given = case("$WORK/ä", env={"WHERE": "$WORK"}, files={"in": "$WORK"})
        recording.record(given, self.home, self.target)
        made = json.loads((self.target / "tiny.json").read_text())
        self.assertRegex(made["command"].pop(2), r"^k8s://http://127\.0\.0\.1:\d+$")
        self.assertEqual(made, {
            "case": "tiny",
            "spark_version": "9.1.0-rc1",
            "command": ["$SPARK_HOME/bin/spark-submit", "--master", "--deploy-mode", "cluster", "$WORK/ä"],
            "env": {"WHERE": "$WORK"},
            "files": {"in": "$WORK"},
            "injected_failures": [],
            "exit_code": 3,
            "exchanges": [],
            "stderr_tail": "Error: $WORK $SPARK_HOME $WORK  $WORK/ä\n",
        })
        self.assertEqual(os.listdir(self.target), ["tiny.json"])

    def test_a_recording_can_be_used_as_a_case(self):
        self.submits("exit 0")
        given = case("local:///a.jar", env={"A": "$WORK"}, files={"b": BINARY})
        recording.record(given, self.home, self.folder / "all/9.1")
        [again] = recorded_cases(self.folder / "all", "tiny")
        self.assertEqual(again.placed(1, pathlib.Path("/w")), given.placed(1, pathlib.Path("/w")))

    def test_the_folder_of_a_killed_run_is_removed(self):
        self.submits("ls -A; exit $(ls -A | wc -l)")
        (self.target / ".work").mkdir(parents=True)
        (self.target / ".work/left").touch()
        self.assertEqual(recording.record(case(), self.home, self.target)["exit_code"], 0)

    def test_a_spark_submit_that_does_not_end_is_stopped_with_all_that_it_started(self):
        self.submits(f"sleep 60 & echo $! > {self.folder}/child; echo $$ > {self.folder}/self; wait")
        self.addCleanup(setattr, recording, "SECONDS", recording.SECONDS)
        recording.SECONDS = 2
        with self.assertRaises(recording.Unfinished):
            recording.record(case(), self.home, self.target)
        for name in ("child", "self"):
            self.assertTrue(self.is_gone(int((self.folder / name).read_text())), name)
        self.assertEqual(os.listdir(self.target), [])

    def test_spark_submit_does_not_outlive_a_killed_recorder(self):
        started = f"echo $$ > {self.folder}/unfinished; mv {self.folder}/unfinished {self.folder}/self"
        self.submits(f"{started}; exec sleep 60")
        script = (
            "import sys; sys.dont_write_bytecode = True; sys.path.append(sys.argv[1])\n"
            "import pathlib, recording, case\n"
            "recording.record(case.Case.new('tiny', [], {}, {}), *map(pathlib.Path, sys.argv[2:]))\n"
        )
        recorder = subprocess.Popen([sys.executable, "-c", script, HERE, self.home, self.target])
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        deadline = time.monotonic() + 30
        while not (self.folder / "self").exists():
            self.assertLess(time.monotonic(), deadline, "it did not start")
            time.sleep(0.02)
        pid = int((self.folder / "self").read_text())
        self.assertFalse(self.is_gone(pid, 0))
        recorder.kill()
        self.assertTrue(self.is_gone(pid))

    def test_a_folder_without_spark_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "is no Spark"):
            recording.version(self.folder)

    def test_nothing_but_loopback_can_be_reached(self):
        script = "import recording, socket; recording.isolate(); print(socket.if_nameindex())"
        command = [sys.executable, "-B", "-c", script]
        said = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        self.assertEqual((said.stdout, said.stderr), ("[(1, 'lo')]\n", ""))

    def is_gone(self, pid, seconds=10):
        deadline = time.monotonic() + seconds
        while (stat := processes.stat_of(pid)) and stat[0] == "running":
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


if __name__ == "__main__":
    unittest.main()
