"""What the job's log lines are counted and measured by: one log-based metric a signal. Pure data, no pulumi.

A filter reads the worker's JSON fields and messages (app/) or the platform's own lines. tests/infra/test_signals.py
runs the worker for real and holds each filter to exactly the lines that it is meant for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

TASK_LABELS: Mapping[str, str] = MappingProxyType({"task": 'EXTRACT(labels."run.googleapis.com/task_index")'})
"""Labels of every metric. Not the execution: each would be a time series of its own for ever."""

# What a container prints is in .../stdout and .../stderr: a program that prints the platform's words is not it.
_BY_THE_PLATFORM = 'NOT logName:"run.googleapis.com%2Fstd"'


@dataclass(frozen=True)
class Signal:
    """One log-based metric: a counter of lines or, with a field, the distribution of that field's values."""

    name: str
    meaning: str
    lines: str
    """Which of the job's log entries, in the language of Cloud Logging."""
    field: str = ""
    """Of the JSON payload; empty: lines are only counted."""
    unit: str = "1"

    @property
    def value_extractor(self) -> str | None:
        return f"EXTRACT(jsonPayload.{self.field})" if self.field else None

    def metric(self, job: str) -> str:
        """The metric's name. It begins with the job's: two stacks in one project do not share metrics."""
        return f"{job}/{self.name}"

    def metric_type(self, job: str) -> str:
        return f"logging.googleapis.com/user/{self.metric(job)}"

    def filter(self, job: str, region: str) -> str:
        return f"{of_the_job(job, region)} AND {self.lines}"


def of_the_job(job: str, region: str) -> str:
    """All that the job's tasks and the platform around them log."""
    return f'resource.type="cloud_run_job" AND resource.labels.job_name="{job}" AND resource.labels.location="{region}"'


_STEP_LINES = 'jsonPayload.message=~"^step [0-9]+/[0-9]+"'

PREEMPTIONS = Signal(
    "preemptions",
    "Attempts that the platform ended for maintenance of the host",
    f'textPayload:"preemption initiated by the platform" AND {_BY_THE_PLATFORM}',
)
TIMEOUTS = Signal(
    "timeouts",
    "Attempts that the platform ended at the task's timeout",
    f'textPayload:"because it has reached the maximum timeout" AND {_BY_THE_PLATFORM}',
)
STEPS = Signal("steps", "Steps that the worker logged", f"{_STEP_LINES} AND jsonPayload.step:*", "step")
LOSS = Signal("loss", "Loss of the logged steps", f"{_STEP_LINES} AND jsonPayload.loss:*", "loss")
DURABLE_STEPS = Signal("durable_steps", "Steps whose checkpoint is durable", "jsonPayload.save_bytes:*", "step")
SAVE_SECONDS = Signal("save_seconds", "How long saves took", "jsonPayload.save_s:*", "save_s", "s")
SAVE_FAILURES = Signal(
    "save_failures", "Saves that failed", 'severity>=ERROR AND jsonPayload.message=~"^Saving step [0-9]+ failed"'
)
RESUMES = Signal(
    "resumes",
    "Steps at which attempts resumed",
    'jsonPayload.message=~"^Resuming from checkpointed step [0-9]+" AND jsonPayload.checkpoint:*',
    "step",
)
_VERDICT = "[0-9]+ attempts in a row failed without a new durable step"
GIVEN_UP = Signal(
    "given_up",
    "Attempts that the no-progress breaker ended",
    # A script of your own that does not catch it shows it as the last line of a traceback.
    f'(jsonPayload.message=~"^{_VERDICT}" OR textPayload=~"NoProgress: {_VERDICT}")',
)

ALL = (PREEMPTIONS, TIMEOUTS, STEPS, LOSS, DURABLE_STEPS, SAVE_SECONDS, SAVE_FAILURES, RESUMES, GIVEN_UP)
