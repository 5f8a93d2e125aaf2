"""A cloud made of lists: what the commands see when they are tested without any server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from ops.cloud import Cloud
from ops.errors import MissingError
from ops.model import AttemptResult, Durable, Execution, LogLine, State, Task
from ops.stack import StackOutputs

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
OUTPUTS = StackOutputs(
    project="p",
    region="europe-west4",
    job_name="job",
    job_id="projects/p/locations/europe-west4/jobs/job",
    checkpoint_url="gs://bucket/job-task-0",
)


def execution(name: str = "job-one", state: State = State.RUNNING, **changes: object) -> Execution:
    made = Execution(
        name=name,
        state=state,
        created_at=NOON,
        ended_at=NOON + timedelta(hours=1) if state.ended else None,
        task_count=1,
        running=0 if state.ended else 1,
        succeeded=int(state is State.SUCCEEDED),
        failed=int(state is State.FAILED),
        cancelled=int(state is State.CANCELLED),
        log_url="",
        message="",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def task(
    index: int = 0,
    state: State = State.RUNNING,
    attempt: int = 0,
    exit_code: int | None = None,
    signal: int | None = None,
) -> Task:
    ended = exit_code is not None or signal is not None
    result = AttemptResult(exit_code, signal, "") if ended else None
    return Task(index=index, state=state, attempt=attempt, max_retries=3, result=result, since=NOON)


def line(number: int, second: float, message: str | None = None) -> LogLine:
    return LogLine(
        f"id{number}", "stdout", NOON + timedelta(seconds=second), "INFO", "0", "0", message or f"line {number}"
    )


@dataclass
class FakeClock:
    """Time passes only when somebody sleeps; `at` holds what happens when it has."""

    elapsed_s: float = 0.0
    at: dict[float, Callable[[], None]] = field(default_factory=dict)

    def monotonic(self) -> float:
        return self.elapsed_s

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.elapsed_s)

    def sleep(self, seconds: float) -> None:
        self.elapsed_s += seconds
        for moment in sorted(moment for moment in self.at if moment <= self.elapsed_s):
            self.at.pop(moment)()


@dataclass
class FakeRuns:
    """Executions by name; `failing` holds errors raised, one a call, before anything answers again."""

    known: dict[str, Execution] = field(default_factory=dict)
    task_lists: dict[str, list[Task]] = field(default_factory=dict)
    failing: list[Exception] = field(default_factory=list)
    start_errors: list[Exception] = field(default_factory=list)
    on_start_error: Callable[[], None] = lambda: None
    started: list[list[str]] = field(default_factory=list)
    on_cancel: Callable[[str], None] = lambda _: None

    def put(self, *executions: Execution) -> None:
        self.known.update({one.name: one for one in executions})

    def executions(self) -> list[Execution]:
        self._fail()
        return list(reversed(self.known.values()))

    def execution(self, name: str) -> Execution:
        self._fail()
        if name not in self.known:
            raise MissingError(f"Job job has no execution {name}.")
        return self.known[name]

    def tasks(self, execution: str) -> list[Task]:
        return self.task_lists.get(execution, [task(state=self.known[execution].state)])

    def start(self, args: Sequence[str]) -> str:
        if self.start_errors:
            self.on_start_error()
            raise self.start_errors.pop(0)
        self.started.append(list(args))
        self.put(execution("job-new"))
        return "job-new"

    def cancel(self, name: str) -> None:
        self.on_cancel(name)

    def _fail(self) -> None:
        if self.failing:
            raise self.failing.pop(0)


@dataclass
class FakeLogs:
    stored: list[LogLine] = field(default_factory=list)
    failing: list[Exception] = field(default_factory=list)
    asked_since: list[datetime] = field(default_factory=list)

    def lines(self, execution: str, since: datetime) -> Iterable[LogLine]:
        self.asked_since.append(since)
        for one in sorted(self.stored, key=lambda line: line.timestamp):
            if one.timestamp >= since:
                yield one
        if self.failing:
            raise self.failing.pop(0)


@dataclass
class FakeCheckpoints:
    steps: dict[int, Durable] = field(default_factory=dict)

    def durable(self, task: int, execution: str | None = None) -> Durable:
        return self.steps.get(task, Durable(None))


@dataclass
class World:
    """A cloud and its parts, to be arranged by a test."""

    clock: FakeClock = field(default_factory=FakeClock)
    runs: FakeRuns = field(default_factory=FakeRuns)
    logs: FakeLogs = field(default_factory=FakeLogs)
    checkpoints: FakeCheckpoints = field(default_factory=FakeCheckpoints)
    said: list[str] = field(default_factory=list)

    @property
    def cloud(self) -> Cloud:
        return Cloud(OUTPUTS, self.runs, self.logs, self.checkpoints, self.clock, pace_s=1.0, log_delay_s=5.0)

    def say(self, message: str) -> None:
        self.said.append(message)
