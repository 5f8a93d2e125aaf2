"""What the commands know about executions, tasks and log lines: plain values, free of Google's message types."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class State(StrEnum):
    """Where an execution or a task stands."""

    WAITING = "waiting"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in {State.SUCCEEDED, State.FAILED, State.CANCELLED}


@dataclass(frozen=True)
class Execution:
    """One run of the job. Times are aware and in UTC."""

    name: str
    """Short name, as in the last part of its resource name."""
    state: State
    created_at: datetime
    ended_at: datetime | None
    task_count: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    log_url: str
    message: str
    """What Cloud Run says about its end; empty while there is nothing to say."""


@dataclass(frozen=True)
class AttemptResult:
    """How a task's latest ended attempt ended. At most one of exit code and signal is set."""

    exit_code: int | None
    signal: int | None
    message: str


@dataclass(frozen=True)
class Task:
    """One task of an execution. `attempt` counts from 0, as CLOUD_RUN_TASK_ATTEMPT does."""

    index: int
    state: State
    attempt: int
    max_retries: int
    result: AttemptResult | None
    since: datetime | None
    """When it got into its state, as far as the API tells."""

    @property
    def retries_left(self) -> int:
        return max(0, self.max_retries - self.attempt)


@dataclass(frozen=True)
class LogLine:
    """One entry of Cloud Logging. `task` and `attempt` are empty for lines that belong to the whole execution."""

    insert_id: str
    log_name: str
    timestamp: datetime
    severity: str
    task: str
    attempt: str
    message: str

    @property
    def key(self) -> tuple[datetime, str, str]:
        """Cloud Logging's own identity of an entry: timestamp, insertId and log name."""
        return (self.timestamp, self.insert_id, self.log_name)


@dataclass(frozen=True)
class Durable:
    """The newest step of a checkpoint line that survives anything.

    `known` tells "the bucket could not be asked" (False, with `reason`) from "nothing was saved" (True, step None).
    """

    step: int | None
    known: bool = True
    reason: str = ""
    finished: bool = False
    at_least: bool = False
    """Something newer was written, but cannot be read (its attempt was killed while it wrote)."""

    def __str__(self) -> str:
        if not self.known:
            return "not known"
        if self.step is None:
            return "none"
        return f"step {self.step}" + (" or later" if self.at_least else "") + (", finished" if self.finished else "")
