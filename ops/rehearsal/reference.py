"""The run to compare with: the same workload, on this machine, without Pulumi, cloud or interruption."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ops.rehearsal.commands import RehearsalError, console


class UninterruptedRun:
    """`python -m app WORKLOAD` in a directory of its own."""

    def __init__(self, workload: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        self._workload = list(workload)
        self._environment = dict(environment)
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def in_background(self) -> Generator[None]:
        """Run it beside the body; wait for its end after the body.

        Raises:
            RehearsalError: it ended with another code than 0.
        """
        command = [sys.executable, "-m", "app", *self._workload]
        console.print(f"[bold]$ CHECKPOINT_DIR=... python -m app {' '.join(self._workload)} &[/bold]", soft_wrap=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CLOUD_RUN_")}
        log = self._directory / "output.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env={**environment, **self._environment, "CHECKPOINT_DIR": str(self._directory)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                yield
                code = process.wait(timeout=300)
            finally:
                process.kill()
        if code != 0:
            raise RehearsalError(f"the uninterrupted run ended with {code}; its output is in {log}")

    def weights(self) -> str:
        """The hash of its final weights (app's `weights_sha256`)."""
        done = json.loads((self._directory / "job-task-0" / "done.json").read_text())
        return str(done["weights_sha256"])
