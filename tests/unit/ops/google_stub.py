"""An HTTP server that gives prepared answers, so that Google's real clients run without any cloud."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from ops.stack import StackOutputs

JOB = "projects/p/locations/europe-west4/jobs/job"


@dataclass
class Stub:
    """`answers` maps "METHOD /path" to what the next requests get: (status, JSON body); the last one stays."""

    port: int
    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    requests: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def outputs(self) -> StackOutputs:
        base = f"http://127.0.0.1:{self.port}"
        endpoints = {"run": f"{base}/run/v2/", "logging": f"{base}/logging/v2/", "storage": f"{base}/storage/v1/"}
        return StackOutputs("p", "europe-west4", "job", JOB, "gs://bucket/job-task-0", endpoints)

    def answer(self, request: str, body: Any, status: int = 200) -> None:
        self.answers.setdefault(request, []).append((status, body))

    def refuse(self, request: str, status: int, message: str) -> None:
        self.answer(request, {"error": {"code": status, "message": message, "status": "REFUSED"}}, status)


@contextmanager
def serving() -> Generator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            request = f"{self.command} {urlsplit(self.path).path}"
            length = int(self.headers.get("Content-Length") or 0)
            stub.requests.append((request, json.loads(self.rfile.read(length)) if length else None))
            prepared = stub.answers.get(request) or [(404, {"error": {"code": 404, "message": f"no {request}"}})]
            status, body = prepared.pop(0) if len(prepared) > 1 else prepared[0]
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815 (http.server looks for this name)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub = Stub(server.server_address[1])
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
