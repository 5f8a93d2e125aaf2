"""Buckets for tests: in fake-gcs-server itself, or in a local cloud, whose front door adds preconditions and moves."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import httpx

from localcloud.ports import free_port
from localcloud.server.emulator import binary

if TYPE_CHECKING:
    from collections.abc import Generator

_NUMBERS = count()


@contextmanager
def emulator() -> Generator[str]:
    """The address of a fake-gcs-server that keeps objects in memory."""
    host = f"127.0.0.1:{free_port()}"
    flags = {
        **{"-backend": "memory", "-scheme": "http", "-host": "127.0.0.1", "-port": host.partition(":")[2]},
        **{"-public-host": host, "-external-url": f"http://{host}", "-log-level": "error"},
    }
    process = subprocess.Popen([str(binary()), *(each for pair in flags.items() for each in pair)])
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                httpx.get(f"http://{host}/_internal/healthcheck", trust_env=False)
            except httpx.TransportError:
                time.sleep(0.02)
            else:
                break
        yield f"http://{host}"
    finally:
        process.kill()
        process.wait()


def new_bucket(url: str) -> str:
    name = f"bucket-{next(_NUMBERS)}"
    httpx.post(f"{url}/storage/v1/b?project=some-project", json={"name": name}, trust_env=False).raise_for_status()
    return name
