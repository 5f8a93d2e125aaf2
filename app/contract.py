"""What Cloud Run tells a task (its environment), and what a task tells Cloud Run (its exit code)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, TypeVar

from app.place import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class ExitCode(IntEnum):
    """Every way a task ends on its own. Cloud Run retries anything but 0. Explained in docs/exit-codes.md."""

    DONE = 0
    FAILED = 70
    HANDED_OFF = 75
    REFUSED = 78
    STOPPED = 143


class Reason(StrEnum):
    """Why an attempt ended, as its ledger document says it; None there means killed without notice."""

    FINISHED = "finished"
    STOPPED = "stopped"
    HANDED_OFF = "handed-off"
    FAILED = "failed"
    HUNG = "hung"
    REFUSED = "refused"


class TaskError(Exception):
    """An end with a known exit code. Its message is for the person who reads the log at night."""

    exit_code: ExitCode = ExitCode.FAILED
    reason: Reason = Reason.FAILED


class Refusal(TaskError):  # noqa: N818 - named for what it does
    """Trying again cannot help: a setting, a missing GPU, another model's checkpoint."""

    exit_code = ExitCode.REFUSED
    reason = Reason.REFUSED


class TryAgain(TaskError):  # noqa: N818 - named for what to do
    """The surroundings failed (storage unavailable), not the program: the platform's retry resumes."""

    exit_code = ExitCode.HANDED_OFF
    reason = Reason.HANDED_OFF


@dataclass(frozen=True)
class Task:
    """One task attempt as the platform describes it. Outside Cloud Run: job "job", task 0 of 1, attempt 0."""

    checkpoint_dir: Place
    """Root under which each task keeps its checkpoint line: the bucket's mount, any directory, or gs://bucket."""
    job: str = "job"
    execution: str = ""
    """Name of the execution; empty outside Cloud Run."""
    index: int = 0
    count: int = 1
    attempt: int = 0
    """The platform's attempt number: 0 first, starts again with every execution."""
    required_gpu: str | None = None
    timeout_s: int | None = None
    """The platform ends this attempt that many seconds after its start; None: it does not."""
    max_retries: int | None = None
    """The platform starts so many further attempts when one fails; None: not known."""

    @property
    def line(self) -> Place:
        """Where this task's checkpoint line is."""
        return self.checkpoint_dir / f"{self.job}-task-{self.index}"

    @property
    def retries_left(self) -> int | None:
        """How many attempts the platform has left for this task after this one."""
        return None if self.max_retries is None else max(0, self.max_retries - self.attempt)

    @property
    def which_attempt(self) -> str:
        """In words, e.g. `attempt 1, 2 retries left`. Counted from 0, as the platform and `gpujob status` do."""
        if self.max_retries is None:
            return f"attempt {self.attempt}"
        left = f"{self.retries_left} {'retry' if self.retries_left == 1 else 'retries'}"
        return f"attempt {self.attempt}, {left if self.retries_left else 'no retry'} left"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Task:
        """Raises Refusal, naming the variable, when one is missing or malformed."""
        root = environment.get("CHECKPOINT_DIR", "")
        if not root:
            raise Refusal(
                "CHECKPOINT_DIR is not set, so there is nowhere to keep checkpoints. In the job it is the mount path "
                "of the bucket's volume; by hand: CHECKPOINT_DIR=/some/directory python -m app"
            )
        try:
            checkpoint_dir = place_of(root)
        except ValueError as error:
            raise Refusal(
                f"CHECKPOINT_DIR is {root!r}: {error}. Or it is a directory, such as the mount path of the bucket's "
                "volume, /checkpoints."
            ) from None
        job = environment.get("CLOUD_RUN_JOB", "job")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", job):
            raise Refusal(f"CLOUD_RUN_JOB is {job!r}: not a job name, and checkpoints are kept under it.")
        index = _integer(environment, "CLOUD_RUN_TASK_INDEX", 0)
        count = _integer(environment, "CLOUD_RUN_TASK_COUNT", 1, least=1)
        if index >= count and environment.get("CLOUD_RUN_TASK_COUNT"):
            raise Refusal(
                f"CLOUD_RUN_TASK_INDEX is {index}, but CLOUD_RUN_TASK_COUNT is {count}: tasks are numbered from 0 to "
                f"{count - 1}."
            )
        return cls(
            checkpoint_dir=checkpoint_dir,
            job=job,
            execution=environment.get("CLOUD_RUN_EXECUTION", ""),
            index=index,
            count=count,
            attempt=_integer(environment, "CLOUD_RUN_TASK_ATTEMPT", 0),
            required_gpu=environment.get("REQUIRED_GPU") or None,
            timeout_s=_integer(environment, "TASK_TIMEOUT_S", None, least=1),
            max_retries=_integer(environment, "MAX_RETRIES", None),
        )


_MOST = 999_999_999
_N = TypeVar("_N", int, None)


def _integer(environment: Mapping[str, str], name: str, default: _N, least: int = 0) -> int | _N:
    """Raises Refusal."""
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_MOST)) or int(text) < least:
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise Refusal(f"{name} is {shown!r}; it must be a whole number from {least} to {_MOST}.")
    return int(text)
