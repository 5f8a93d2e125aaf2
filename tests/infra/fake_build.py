"""A Cloud Build, Cloud Storage and Cloud Logging that answer what a test prepared, and keep what they were asked."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIGEST = "sha256:" + "c" * 64


@dataclass
class FakeGoogle:
    """Prepared answers. `builds` is what each successive build answers on each successive look."""

    builds: list[list[dict[str, Any]]]
    refusals: list[tuple[int, str]] = field(default_factory=list)
    """(HTTP status, message) that the first attempts to create a build meet."""
    log_lines: list[str] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    authorizations: set[str | None] = field(default_factory=set)
    url: str = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if path.startswith("/upload/"):
            return self._upload(path, body)
        if path.endswith("/builds") and method == "POST":
            return self._create(json.loads(body))
        if "/builds/" in path:
            looks = self.builds[int(path.rsplit("-", 1)[1])]
            return 200, looks.pop(0) if len(looks) > 1 else looks[0]
        if path.endswith("entries:list"):
            entries = [
                {"logName": "projects/p/logs/cloudbuild", "resource": {"type": "build"}, "textPayload": line}
                for line in reversed(self.log_lines)
            ]
            return 200, {"entries": entries}
        return 404, {"error": {"code": 404, "message": f"no answer prepared for {method} {path}"}}

    def _upload(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        rest = body.partition(b"\r\n\r\n{")[2]
        metadata, _, rest = rest.partition(b"}\r\n")
        name = json.loads(b"{" + metadata + b"}")["name"]
        content = rest.partition(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0]
        if name in self.uploads:
            return 412, {"error": {"code": 412, "message": "conditionNotMet"}}
        self.uploads[name] = content
        return 200, {"name": name}

    def _create(self, build: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.refusals:
            code, message = self.refusals.pop(0)
            return code, {"error": {"code": code, "message": message, "status": "ANY"}}
        name = f"build-{len(self.created)}"
        self.created.append(build)
        meta = {
            "@type": "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata",
            "build": {"id": name},
        }
        return 200, {"name": f"operations/{name}", "metadata": meta}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        google = self.server.google
        google.requests.append(f"{self.command} {self.path}")
        google.authorizations.add(self.headers.get("Authorization"))
        code, answer = google.answer(self.command, self.path.split("?")[0], body)
        payload = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = do_PUT = _serve  # noqa: N815 - the names that http.server calls

    def log_message(self, format, *args) -> None:
        """Quiet."""


class _Server(ThreadingHTTPServer):
    google: FakeGoogle


def serve(google: FakeGoogle) -> _Server:
    """Start; the caller shuts it down."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.google = google
    google.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
