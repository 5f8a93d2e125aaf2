"""What every Pulumi plugin process does: serve gRPC on a free loopback port, print it, end with its engine."""

from __future__ import annotations

import contextlib
import os
import signal
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
    # An engine that was killed leaves its plugins behind: they notice that their parent has changed.
    while not stop.wait(_PARENT_POLL_S):
        if os.getppid() != parent:
            break
    cancel()
    server.stop(_GRACE_S).wait()
