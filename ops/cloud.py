"""The seam between the commands and Google: what they ask for, and how a stack's outputs become something to ask."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ops.clock import Clock, SystemClock
from ops.model import Durable, Execution, LogLine, Task
from ops.stack import StackOutputs


class Runs(Protocol):
    """Executions of one job. Every method may raise the errors of `ops.errors`."""

    def executions(self) -> list[Execution]:
        """All executions that Cloud Run still remembers, newest first."""
        ...

    def execution(self, name: str) -> Execution: ...

    def tasks(self, execution: str) -> list[Task]:
        """By index."""
        ...

    def start(self, args: Sequence[str]) -> str:
        """Asks for one execution, once, and returns its short name. `args`, if any, replace the job's own."""
        ...

    def cancel(self, name: str) -> None:
        """Asks for the end of an execution; returns before it has ended."""
        ...


class Logs(Protocol):
    """Log lines of one job."""

    def lines(self, execution: str, since: datetime) -> Iterable[LogLine]:
        """Lines of an execution with a timestamp at or after `since`, oldest first."""
        ...


class Checkpoints(Protocol):
    """Checkpoint lines of one job, one a task index."""

    def durable(self, task: int, execution: str | None = None) -> Durable:
        """Where the line would resume now, or as an execution left it. Never raises: see `Durable.known`."""
        ...


@dataclass(frozen=True)
class Cloud:
    """One deployed job and the clients for it."""

    outputs: StackOutputs
    runs: Runs
    logs: Logs
    checkpoints: Checkpoints
    clock: Clock
    pace_s: float
    """Between two looks at something that changes. Quotas a minute: 180 calls of the Run API, 60 log reads."""
    log_delay_s: float
    """How much later than its timestamp a log line may become readable."""


def connect(stack: str | None) -> Cloud:
    """The job of a Pulumi stack (default: $GPUJOB_STACK, else the selected one)."""
    from ops.stack import read_outputs

    return connect_to(read_outputs(stack))


def connect_to(outputs: StackOutputs) -> Cloud:
    """Clients for the cloud that the outputs point at, which is asked nothing yet."""
    from ops.google_logs import CloudLogging
    from ops.google_run import CloudRun
    from ops.google_storage import BucketCheckpoints

    local = outputs.is_local
    if local:
        bypass_proxies()
    return Cloud(
        outputs=outputs,
        runs=CloudRun(outputs),
        logs=CloudLogging(outputs),
        checkpoints=BucketCheckpoints(outputs),
        clock=SystemClock(),
        pace_s=0.5 if local else 3.0,
        log_delay_s=1.0 if local else 20.0,
    )


def bypass_proxies() -> None:
    """No proxy reaches this machine's loopback, and Google's clients take theirs from the environment."""
    for name in ("NO_PROXY", "no_proxy"):
        present = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join(dict.fromkeys([*present, "127.0.0.1", "localhost", "::1"]))
