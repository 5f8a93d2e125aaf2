"""What every Pulumi plugin process does: serve gRPC on a free loopback port, print it, end with its engine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

# The engine's own limits (pulumi.runtime._grpc_settings): a state can be large, a request can wait for another.
_OPTIONS = [
    ("grpc.max_receive_message_length", 400 * 1024 * 1024),
    ("grpc.server_max_unrequested_time_in_server", 1800),
]
_PARENT_POLL_S = 1.0
_GRACE_S = 3.0


def engine_address() -> str:
    """The engine's HOST:PORT, which the CLI passes as the last argument; empty if it is not there."""
    last = sys.argv[-1] if len(sys.argv) > 1 else ""
    return last if last.rpartition(":")[2].isdigit() else ""


def _gone(address: str) -> bool:
    """Whether nobody listens at the engine's address any more. A slow engine, or none that is known, is not gone."""
    host, _, port = address.rpartition(":")
    if not port:
        return False
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def serve(register: Callable[[grpc.Server], Any], *, cancel: Callable[[], None], workers: int = 64) -> None:
    """Serve until SIGINT or SIGTERM or until the engine is gone, then return quietly.

    Args:
        register: adds the servicer to the server.
        cancel: called first on a signal; makes requests under way end soon.
        workers: requests served at once. The engine sends one a resource, and its own limit is 16 x cores.
    """
    server = grpc.server(ThreadPoolExecutor(max_workers=workers), options=_OPTIONS)
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    stop = threading.Event()

    def on_signal(_signum: int, _frame: object) -> None:
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    parent = os.getppid()
    server.start()
    with contextlib.suppress(BrokenPipeError):
        print(port, flush=True)
    # An engine that is gone leaves its plugins behind. They notice that their parent has changed, or, where a command
    # failed so fast that it was gone before they looked, that nobody listens where it was.
    while not stop.wait(_PARENT_POLL_S):
        if os.getppid() != parent or _gone(engine_address()):
            break
    cancel()
    server.stop(_GRACE_S).wait()
