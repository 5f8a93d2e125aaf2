"""Plugins written in Python that the language host runs for the engine: policy packs, mostly."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import grpc
from pulumi.runtime.proto import language_pb2

_READ_BYTES = 65536


class PluginRuns:
    """The plugins' processes, each in its own virtual environment where it names one."""

    def __init__(self) -> None:
        self._children: set[subprocess.Popen[bytes]] = set()

    def run(self, request: language_pb2.RunPluginRequest, context: Any) -> Iterator[Any]:
        """Run one plugin until it ends; answers its output as it comes, then its exit code."""
        environment = {**os.environ, **dict(entry.split("=", 1) for entry in request.env)}
        command = _command(request)
        try:
            child = subprocess.Popen(
                command, cwd=request.pwd or None, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"plugin {request.name}: cannot start {command[0]}: {error}"
            )
            return
        self._children.add(child)
        context.add_callback(lambda: _end(child))
        yield from _output_of(child)
        self._children.discard(child)
        yield language_pb2.RunPluginResponse(exitcode=child.wait())

    def stop(self) -> None:
        """Ask all of them to end."""
        for child in list(self._children):
            _end(child)


def _command(request: language_pb2.RunPluginRequest) -> list[str]:
    command = [_interpreter(request), "-u"]
    if request.kind == "analyzer":
        # The engine gives its own address; `pulumi.policy` wants the pack's folder behind it.
        return [*command, "-m", "pulumi.policy", *request.args, request.info.program_directory]
    return [*command, request.info.program_directory or request.program, *request.args]


def _interpreter(request: language_pb2.RunPluginRequest) -> str:
    options = request.info.options.fields
    if "virtualenv" not in options or not options["virtualenv"].string_value:
        return sys.executable
    root = request.info.root_directory or request.pwd
    return str(Path(root) / options["virtualenv"].string_value / "bin" / "python")


def _output_of(child: subprocess.Popen[bytes]) -> Iterator[Any]:
    """Both streams of the child as they come."""
    chunks: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()

    def pump(name: str, stream: IO[bytes] | None) -> None:
        while stream is not None and (data := os.read(stream.fileno(), _READ_BYTES)):
            chunks.put((name, data))
        chunks.put((name, b""))

    for name, stream in (("stdout", child.stdout), ("stderr", child.stderr)):
        threading.Thread(target=pump, args=(name, stream), daemon=True).start()
    open_streams = 2
    while open_streams:
        name, data = chunks.get()
        if data:
            yield (
                language_pb2.RunPluginResponse(stdout=data)
                if name == "stdout"
                else language_pb2.RunPluginResponse(stderr=data)
            )
        else:
            open_streams -= 1


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
