"""How far an execution is, by its log: read on from where the last look ended, since each look costs the cores time."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ops.cloud import Logs
from ops.model import LogLine

_STEP = re.compile(r"\bstep (\d+)/\d+")
_DURABLE = re.compile(r"Checkpoint 0*(\d+)-\S+ is durable")


class Progress:
    """Steps and checkpoints that the log of one execution shows."""

    def __init__(self, logs: Logs, execution: str) -> None:
        self._logs = logs
        self._execution = execution
        self._since = datetime(2000, 1, 1, tzinfo=UTC)
        self._read: dict[tuple[datetime, str, str], LogLine] = {}
        self.steps: dict[int, int] = {}
        """Attempt -> its highest step."""
        self.durable_step = 0
        """Step of the newest checkpoint."""

    @property
    def step(self) -> int:
        """The highest step of any attempt."""
        return max(self.steps.values(), default=0)

    @property
    def tail(self) -> str:
        """The last lines of the log, for an error message."""
        return "\n".join(["The end of its log:", *[line.message for line in self._read.values()][-20:]])

    def look(self) -> None:
        """Read what the log has gained."""
        for line in self._logs.lines(self._execution, self._since):
            if line.key in self._read:
                continue
            self._read[line.key] = line
            self._since = max(self._since, line.timestamp)
            step = _STEP.search(line.message)
            if step and line.attempt:
                attempt = int(line.attempt)
                self.steps[attempt] = max(self.steps.get(attempt, 0), int(step.group(1)))
            durable = _DURABLE.search(line.message)
            if durable:
                self.durable_step = max(self.durable_step, int(durable.group(1)))
