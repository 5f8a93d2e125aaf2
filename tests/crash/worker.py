"""`python -m app` as the platform starts it: its own process, its environment, its signals, its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIGTERM_LINE = "Received SIGTERM signal from platform. Initiating graceful shutdown..."


class Worker:
    """A worker process whose output is followed in a file."""

    def __init__(self, root: Path, *arguments: str, program: str | None = None, **environment: str) -> None:
        self._log = root.parent / f"{root.name}.log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("CLOUD_RUN", "TASK_"))}
        command = [sys.executable, "-c", program] if program else [sys.executable, "-m", "app", *arguments]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**inherited, "CHECKPOINT_DIR": str(root), "OMP_NUM_THREADS": "1", **environment},
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, condition: Callable[[], bool], within_s: float = 90) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert self.process.poll() is None, f"ended early: {self.log}"
            assert time.monotonic() < deadline, self.log
            time.sleep(0.005)

    def until_log(self, text: str) -> None:
        self.until(lambda: text in self.log)

    def stop(self) -> float:
        """Seconds from SIGTERM to the end."""
        asked = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        return time.monotonic() - asked

    def wait(self) -> int:
        return self.process.wait(timeout=120)


def countdown(root: Path, *more: str, **environment: str) -> Worker:
    return Worker(root, "countdown", "--steps", "40", "--step-delay", "0.02", *more, **environment)
