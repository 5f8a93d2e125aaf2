"""The trial server, one a test process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parents[2]


class Server:
    """Starts attempts one at a time; see trials.py."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.trials"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        assert self._line() == "ready"

    def start_app(self, root: Path, *arguments: str) -> int:
        """`python -m app` on the lines in `root`, its output in log.txt there: its pid."""
        self._stdin.write(json.dumps({"root": str(root), "app": arguments}) + "\n")
        self._stdin.flush()
        return int(self._line())

    def wait(self) -> int:
        """Its exit code; negative: killed by that signal."""
        self._stdin.write("wait\n")
        self._stdin.flush()
        return int(self._line())

    def close(self) -> None:
        self._stdin.close()
        self._process.wait(timeout=30)

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin
        return self._process.stdin

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"
