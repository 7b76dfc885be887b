"""A simulated API server that accepts and records whatever spark-submit sends."""

import copy
import http.server
import json
import re
import threading
import urllib.parse
from contextlib import contextmanager

RESOURCE = re.compile(r"(?:/api/v1|/apis/[^/]+/[^/]+)/namespaces/([^/]+)/([a-z]+)(?:/([^/]+))?")


@contextmanager
def serving(failures: list[dict]):
    server = ApiServer(failures)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class ApiServer(http.server.ThreadingHTTPServer):
    """Begins without objects. `failures` are answers that it gives instead of its own: see `failure`."""

    daemon_threads = True

    def __init__(self, failures: list[dict]):
        super().__init__(("127.0.0.1", 0), Connection)
        self.exchanges = []
        self.failures = copy.deepcopy(failures)
        self.objects = {}
        self.lock = threading.Lock()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def exchange(self, method: str, target: str, content_type: str | None, sent: bytes) -> tuple[int, list]:
        """The status of the answer and its documents, of which only a watch has not exactly one."""
        parts = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        try:
            body = json.loads(sent) if sent else None
        except ValueError:
            body = sent.decode(errors="replace")
        with self.lock:
            status, documents = self.failure(method, parts.path) or self.answer(
                method, parts.path, query, content_type or "", body
            )
            self.exchanges.append({
                "method": method, "path": parts.path, "query": query, "content_type": content_type, "body": body,
                "status": status,
            })
        return status, documents

    def failure(self, method: str, path: str) -> tuple[int, list] | None:
        """An injected answer with `code` to the first `times` (default: 1) requests that match `method` and `path` (regular expressions)."""
        for failure in self.failures:
            left = failure.setdefault("times", 1)
            if left > 0 and re.fullmatch(failure["method"], method) and re.search(failure["path"], path):
                failure["times"] = left - 1
                return refusal(failure["code"], failure.get("reason", ""), failure.get("message", "injected failure"))
        return None

    def answer(self, method: str, path: str, query: dict, content_type: str, body) -> tuple[int, list]:
        resource = RESOURCE.fullmatch(path)
        if not resource:
            return refusal(404, "NotFound", f"there is no {path} here")
        namespace, plural, name = resource.groups()
        if method == "POST" or (method == "PATCH" and "apply-patch" in content_type):
            name = name or (body.get("metadata", {}).get("name") if isinstance(body, dict) else None)
            if not name:
                return refusal(422, "Invalid", "metadata.name: Required value")
            path = f"{path}/{name}" if method == "POST" else path
            if method == "POST" and path in self.objects:
                return refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
            return (200 if path in self.objects else 201), [self.stored(path, namespace, plural, body)]
        if method == "GET" and not name:
            there = [document for key, document in self.objects.items() if key.startswith(f"{path}/")]
            if query.get("watch") == "true":
                return 200, [{"type": "ADDED", "object": document} for document in there]
            return 200, [{"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": there}]
        if path not in self.objects:
            return refusal(404, "NotFound", f'{plural} "{name}" not found')
        return 200, [self.objects.pop(path) if method == "DELETE" else self.objects[path]]

    def stored(self, path: str, namespace: str, plural: str, body: dict) -> dict:
        document = copy.deepcopy(body)
        number = len(self.exchanges) + 1
        document.setdefault("metadata", {}).update(
            namespace=namespace,
            uid=f"00000000-0000-4000-8000-{number:012}",
            resourceVersion=str(number),
            creationTimestamp="2026-01-01T00:00:00Z",
        )
        if plural == "pods":
            # A driver has succeeded as soon as it is created, so that a spark-submit that waits for it ends.
            document["status"] = {"phase": "Succeeded", "containerStatuses": []}
        self.objects[path] = document
        return document


def refusal(code: int, reason: str, message: str) -> tuple[int, list]:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return code, [status | {"message": message, "reason": reason, "code": code}]


class Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do(self) -> None:
        content_type = self.headers.get("Content-Type")
        status, documents = self.server.exchange(self.command, self.path, content_type, self.sent())
        # The client of a watch reads whole lines only.
        answer = "".join(json.dumps(document) + "\n" for document in documents).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do

    def sent(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def log_message(self, *_) -> None:
        """Logs nothing: the requests are in the recording."""
