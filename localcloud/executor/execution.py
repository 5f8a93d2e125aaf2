"""One execution under way: its tasks side by side, attempt after attempt, until every task has ended."""

import asyncio
import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from localcloud import secret_versions
from localcloud.build.images import Images
from localcloud.executor import documents
from localcloud.executor.attempt import Attempt, Outcome, Why
from localcloud.executor.container import command_for
from localcloud.executor.documents import ENDED, TaskState
from localcloud.executor.memory_limit import limited
from localcloud.executor.mounts import ContainerError
from localcloud.jsontypes import Json
from localcloud.kinds import Kind
from localcloud.logs.output import AttemptLog
from localcloud.logs.store import LogStore
from localcloud.resources import timestamp
from localcloud.settings import Settings
from localcloud.store import Store

PREEMPTION_LINE = "Container instance preemption initiated by the platform due to underlying hardware maintenance."


@dataclass(frozen=True)
class Machine:
    """What every execution of one local cloud uses."""

    settings: Settings
    store: Store
    logs: LogStore
    images: Images
    url: str


class ExecutionRun:
    """One execution under way."""

    def __init__(self, machine: Machine, execution: Json) -> None:
        self._machine = machine
        self._store = machine.store
        self._execution = execution
        self._name = str(execution["name"])
        self._location = self._name.split("/")[3]
        self._active: dict[int, tuple[Attempt, AttemptLog, int]] = {}
        self._records = {
            int(record["index"]): record for record in self._store.list(Kind.ATTEMPTS, f"{self._name}/tasks/")
        }
        self._cancelled = self._store.get(Kind.CANCELLED, self._name) is not None
        self._suspended = False
        self._abandoned = False
        self.finished = asyncio.Event()

    async def run(self) -> None:
        """Until every task has ended, or the server stops."""
        limit = asyncio.Semaphore(self._execution["parallelism"])
        try:
            await asyncio.gather(*(self._task(index, limit) for index in sorted(self._records)))
            if not (self._suspended or self._abandoned):
                failed = [task for task in self._tasks() if self._state(task["index"]) is TaskState.FAILED]
                self._store.put(Kind.EXECUTION, self._name, documents.execution_ended(self._execution, failed))
        finally:
            self.finished.set()

    def _tasks(self) -> list[Json]:
        return self._store.list(Kind.TASK, f"{self._name}/tasks/")

    def _state(self, index: int) -> TaskState:
        return TaskState(self._records[index]["state"])

    async def _task(self, index: int, limit: asyncio.Semaphore) -> None:
        async with limit:
            name = f"{self._name}/tasks/{self._name.rsplit('/', 1)[-1]}-task{index}"
            while self._state(index) not in ENDED and not (self._suspended or self._abandoned):
                task, attempts = self._store.get(Kind.TASK, name) or {}, self._records[index]["attempts"]
                if attempts and not self._goes_on(name, task, index, _outcome(attempts[-1])):
                    return
                if self._cancelled:
                    self._end(name, task, index, TaskState.CANCELLED, "The task was cancelled.")
                    return
                self._set(name, documents.task_began(task, len(attempts)), index, TaskState.RUNNING)
                outcome = await self._attempt(name, index, len(attempts))
                if self._abandoned:
                    return
                self._set(name, documents.task_attempted(task, outcome), index, TaskState.RUNNING)

    def _goes_on(self, name: str, task: Json, index: int, last: Outcome) -> bool:
        """Decide after an attempt: ended for good (recorded here), or one more attempt."""
        retried = len(self._records[index]["attempts"]) - 1
        if last.succeeded:
            self._end(name, task, index, TaskState.SUCCEEDED, "Task completed successfully.")
        elif self._cancelled or last.why is Why.CANCELLED:
            self._end(name, task, index, TaskState.CANCELLED, "The task was cancelled.")
        elif retried >= int(self._execution["template"]["maxRetries"]):
            result = task.get("lastAttemptResult") or documents.task_attempted(dict(task), last)["lastAttemptResult"]
            self._end(name, task, index, TaskState.FAILED, result["status"].get("message", ""))
        else:
            return True
        return False

    async def _attempt(self, name: str, index: int, number: int) -> Outcome:
        """One attempt, from its record to its last line in the log."""
        log = AttemptLog(self._machine.logs, self._execution, self._location, index, number)
        record = _begun(number)
        self._records[index]["attempts"].append(record)
        scratch = self._machine.settings.attempts_dir / f"{name.rsplit('/', 1)[-1]}-attempt{number}"
        try:
            outcome = await self._process(name, index, number, record=record, log=log, scratch=scratch)
        except (ContainerError, OSError) as error:  # an OSError: no space for its files, or no process to be had
            outcome = Outcome(Why.FAILED, None, None, str(error))
            log.platform(f"The container could not be started: {error}", "ERROR")
        finally:
            self._active.pop(index, None)
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        _ended(record, outcome)
        if outcome.exit_code is not None:
            severity = "INFO" if outcome.exit_code == 0 else "WARNING"
            log.platform(f"Container called exit({outcome.exit_code}).", severity)
        elif outcome.signal is not None:
            log.platform(f"Container terminated on signal {outcome.signal}.", "WARNING")
        return outcome

    async def _process(
        self, name: str, index: int, number: int, *, record: Json, log: AttemptLog, scratch: Path
    ) -> Outcome:
        """The attempt's process, from its files below `scratch` to its end.

        Raises:
            ContainerError, OSError: it cannot be started.
        """
        machine, template = self._machine, self._execution["template"]
        container = template["containers"][0]
        command = await asyncio.to_thread(
            command_for,
            self._execution,
            index,
            number,
            image=machine.images.find(str(container["image"])),
            buckets_dir=machine.settings.buckets_dir,
            scratch=scratch,
            url=machine.url,
            secrets=secret_versions.contents(machine.store, self._name.split("/")[1], template),
        )
        with limited(scratch.name, str(container["resources"]["limits"]["memory"]), log) as group:
            attempt = await Attempt.start(command, group, log, machine.settings.grace_s)
            pid = attempt.process.pid
            record.update(pid=pid, group=scratch.name if group else None, born=_born(pid))
            self._save(name, index)
            self._active[index] = (attempt, log, number)
            # What was asked for while it was being started.
            if self._abandoned:
                attempt.kill()
            elif self._cancelled or self._suspended:
                attempt.stop(Why.CANCELLED if self._cancelled else Why.PREEMPTED)
            return await attempt.wait(float(str(template["timeout"]).removesuffix("s")))

    def _end(self, name: str, task: Json, index: int, state: TaskState, message: str) -> None:
        self._set(name, documents.task_ended(task, state, message), index, state)

    def _set(self, name: str, task: Json, index: int, state: TaskState) -> None:
        """Record a task's new state together with the execution's counters."""
        if self._abandoned:
            return
        self._records[index]["state"] = state
        retried = sum(max(len(record["attempts"]) - 1, 0) for record in self._records.values())
        documents.counted(self._execution, [self._state(each) for each in self._records], retried)
        with self._store.transaction():
            self._store.put(Kind.TASK, name, task)
            self._store.put(Kind.EXECUTION, self._name, self._execution)
            self._save(name, index)

    def _save(self, name: str, index: int) -> None:
        if not self._abandoned:
            self._store.put(Kind.ATTEMPTS, name, self._records[index])

    def cancel(self) -> None:
        """See `Executor.cancel`."""
        self._cancelled = True
        self._store.put(Kind.CANCELLED, self._name, {})
        for attempt, _, _ in self._active.values():
            attempt.stop(Why.CANCELLED)

    def abandon(self) -> None:
        """The execution is deleted: kill at once, record nothing more."""
        self._abandoned = True
        for attempt, _, _ in self._active.values():
            attempt.kill()

    def suspend(self) -> None:
        """The server stops: end what runs like a preemption, and leave the rest to the next server."""
        self._suspended = True
        for attempt, log, _ in self._active.values():
            if attempt.stop(Why.PREEMPTED):
                log.platform("The local cloud is stopping; the task goes on when it starts again.")

    def interrupt(self, how: Why, index: int | None) -> list[tuple[int, int]]:
        """Preempt or kill this execution's running attempts (of one task, or of all); answers (task, attempt) of
        each."""
        signalled: list[tuple[int, int]] = []
        for task, (attempt, log, number) in sorted(self._active.items()):
            if index not in (None, task):
                continue
            if how is Why.PREEMPTED and not attempt.stopping:
                log.platform(PREEMPTION_LINE)
            if attempt.stop(how) if how is Why.PREEMPTED else attempt.kill(how):
                signalled.append((task, number))
        return signalled


def _begun(number: int) -> Json:
    return {
        "attempt": number,
        "started_at": timestamp(),
        "ended_at": None,
        "exit_code": None,
        "signal": None,
        "why": None,
    }


def _ended(record: Json, outcome: Outcome) -> None:
    """Book how the attempt ended; what tells its process from others has no more use."""
    for key in ("pid", "group", "born"):
        record.pop(key, None)
    record.update(
        ended_at=timestamp(),
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        why=str(outcome.why),
        message=outcome.message,
    )


def _outcome(attempt: Json) -> Outcome:
    return Outcome(Why(attempt["why"]), attempt["exit_code"], attempt["signal"], attempt.get("message", ""))


def _born(pid: int) -> float | None:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).create_time()
    return None
