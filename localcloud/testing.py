"""A local cloud for a test: started before, stopped after."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from localcloud import client
from localcloud.jsontypes import Json
from localcloud.settings import HOST, Settings


@dataclass(frozen=True)
class Cloud:
    """A running local cloud."""

    url: str
    port: int
    state_dir: Path
    pid: int

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """One request to its own API (`/_localcloud/...`)."""
        return client.ask(self.port, method, path, body)


@contextmanager
def running_cloud(state_dir: Path, port: int = 0, *options: str) -> Iterator[Cloud]:
    """A local cloud over `state_dir`; further options are those of `python -m localcloud start`.

    Raises:
        LocalCloudError: it does not start.
    """
    arguments = ["--port", str(port), "--state", str(state_dir), *options]
    answer = client.start(Settings(state_dir, port), arguments)
    try:
        yield Cloud(f"http://{HOST}:{answer['port']}", int(answer["port"]), state_dir, int(answer["pid"]))
    finally:
        with suppress(client.LocalCloudError):
            client.stop(int(answer["port"]))


def start_expecting_refusal(*options: str) -> str:
    """What a start that must fail says."""
    command = [sys.executable, "-m", "localcloud", "start", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0, done.stdout  # noqa: S101  # this module is part of the tests
    return done.stderr
