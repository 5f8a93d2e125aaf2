"""Reads an execution's log, once or until the execution ends, each line exactly once."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from ops.clock import patiently
from ops.cloud import Cloud
from ops.model import Execution, LogLine

MARGIN = timedelta(minutes=1)
"""Clocks of the API and of the log may differ by a little."""


def read(cloud: Cloud, execution: Execution) -> Iterator[LogLine]:
    """The log as it is now, oldest first."""
    yield from cloud.logs.lines(execution.name, execution.created_at - MARGIN)


def follow(cloud: Cloud, execution: Execution, say: Callable[[str], None]) -> Iterator[LogLine]:
    """The log from the beginning, then each new line, until the execution has ended and its last lines have arrived.

    A line may become readable up to `cloud.log_delay_s` after its timestamp, and after lines that are younger. So each
    look starts that much before the newest line seen, and lines already given are known by Cloud Logging's own identity
    of an entry.
    """
    lines = _Fresh(cloud, execution)
    quiet_since: float | None = None
    while True:
        ended = patiently(cloud.clock, lambda: cloud.runs.execution(execution.name), say).state.ended
        fresh = patiently(cloud.clock, lines.look, say)
        yield from fresh
        now = cloud.clock.monotonic()
        if not ended or fresh or quiet_since is None:
            quiet_since = now
        if ended and now - quiet_since >= cloud.log_delay_s:
            return
        cloud.clock.sleep(cloud.pace_s)


class _Fresh:
    """Remembers which lines were given, as far back as late ones may still arrive."""

    def __init__(self, cloud: Cloud, execution: Execution) -> None:
        self._cloud = cloud
        self._execution = execution.name
        self._since = execution.created_at - MARGIN
        self._delay = timedelta(seconds=cloud.log_delay_s)
        self._seen: dict[tuple[datetime, str, str], None] = {}

    def look(self) -> list[LogLine]:
        """Lines not given before. One that fails marks none as given, so that repeating it loses nothing."""
        fresh: dict[tuple[datetime, str, str], LogLine] = {}
        for line in self._cloud.logs.lines(self._execution, self._since):
            if line.key not in self._seen:
                fresh[line.key] = line
        self._seen.update(dict.fromkeys(fresh))
        if self._seen:
            self._since = max(self._since, max(moment for moment, _, _ in self._seen) - self._delay)
            self._seen = {key: None for key in self._seen if key[0] >= self._since}
        return list(fresh.values())
