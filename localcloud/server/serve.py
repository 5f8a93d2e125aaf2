"""Runs the server in this process: one owner for a state directory, one port on the loopback address."""

import errno
import fcntl
import json
import os
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from localcloud import VERSION
from localcloud.server.app import build_app, open_cloud
from localcloud.settings import HOST, Settings


class StartError(RuntimeError):
    """The server cannot start; the message is for the person who asked."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        StartError: the port or the state directory is in use.
    """
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    with _owned(settings), _listener(settings.port) as listener:
        port = int(listener.getsockname()[1])
        application = build_app(open_cloud(settings, port))
        _announce(settings, port)
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn raises the signal that stopped it once more when it is done; there is nothing left to do then.
            signal.signal(number, _nothing)
        try:
            config = uvicorn.Config(
                application,
                log_level="warning",
                access_log=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=2,
                http="h11",
                ws="none",
            )
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            settings.server_file.unlink(missing_ok=True)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """A signal that has done its work."""


@contextmanager
def _owned(settings: Settings) -> Generator[None]:
    """Hold the state directory's lock, which the kernel drops when this process is gone, however it goes."""
    with settings.lock_file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StartError(
                f"Another local cloud already serves {settings.state_dir}. Nothing was started or changed. "
                "Use it, stop it (python -m localcloud stop --port PORT), or choose another directory with --state."
            ) from error
        yield


@contextmanager
def _listener(port: int) -> Generator[socket.socket]:
    # The protocol is named because asyncio switches Nagle's algorithm off only where it is: 40 ms a request otherwise.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(128)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise StartError(
                f"Port {port} on {HOST} is taken by another program ({error.strerror}). Nothing was started or "
                "changed. Stop that program, or choose another port with --port (0 picks a free one)."
            ) from error
        yield listener


def _announce(settings: Settings, port: int) -> None:
    """Tell other processes who owns this state. Written whole: a reader sees the old file or the new one."""
    text = json.dumps({"pid": os.getpid(), "port": port, "version": VERSION})
    part = settings.server_file.with_suffix(".part")
    part.write_text(text)
    part.replace(settings.server_file)
