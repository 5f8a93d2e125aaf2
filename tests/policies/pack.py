"""The pack's own process, as the engine starts it, and questions to it over gRPC."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from policies.rules.rule import Resource

TREE = Path(__file__).resolve().parents[2]
PACK = TREE / "policies"
PYTHON = PACK / ".venv" / "bin" / "python"


@contextlib.contextmanager
def running_pack() -> Iterator[analyzer_pb2_grpc.AnalyzerStub]:
    """Start the pack in its own virtual environment; end it on leaving."""
    assert PYTHON.exists(), f"{PYTHON} is missing: `make setup` makes the pack's environment (docs/policies.md)"
    # The engine's address comes first; the pack calls nobody.
    command = [str(PYTHON), "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(PACK)]
    process = subprocess.Popen(command, cwd=PACK, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        port = process.stdout.readline().strip()
        assert port.isdigit(), "the pack ended before it listened"
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield analyzer_pb2_grpc.AnalyzerStub(channel)
    finally:
        process.terminate()
        process.wait(timeout=10)
        if process.stdout:
            process.stdout.close()


def asked(resource: Resource) -> analyzer_pb2.AnalyzeRequest:
    """What the engine asks about a resource."""
    return analyzer_pb2.AnalyzeRequest(
        type=resource.type,
        urn=resource.urn,
        name=resource.urn.split("::")[-1],
        properties=struct(resource.props),
        options=analyzer_pb2.AnalyzerResourceOptions(protect=resource.protect),
    )


def struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(dict(values), struct_pb2.Struct())
