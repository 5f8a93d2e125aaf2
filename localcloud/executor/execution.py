"""One execution under way: its tasks side by side, attempt after attempt, until every task has ended."""

import asyncio
import contextlib
import shutil
from dataclasses import dataclass

import psutil

from localcloud.build.images import Images
from localcloud.executor import documents, memory
from localcloud.executor.attempt import Attempt, Outcome, Why
from localcloud.executor.container import command_for
from localcloud.executor.documents import ENDED, TaskState
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
        machine, own = self._machine, f"{name.rsplit('/', 1)[-1]}-attempt{number}"
        log = AttemptLog(machine.logs, self._execution, self._location, index, number)
        record: Json = {
            "attempt": number,
            "started_at": timestamp(),
            "ended_at": None,
            "exit_code": None,
            "signal": None,
            "why": None,
        }
        self._records[index]["attempts"].append(record)
        scratch = machine.settings.attempts_dir / own
        group: memory.MemoryGroup | None = None
        try:
            image = machine.images.find(str(self._execution["template"]["containers"][0]["image"]))
            command = await asyncio.to_thread(
                command_for,
                self._execution,
                index,
                number,
                image=image,
                buckets_dir=machine.settings.buckets_dir,
                scratch=scratch,
                url=machine.url,
            )
            group = self._limit_memory(own, log)
            attempt = await Attempt.start(command, group, log, machine.settings.grace_s)
            record.update(pid=attempt.process.pid, group=own if group else None, born=_born(attempt.process.pid))
            self._save(name, index)
            self._active[index] = (attempt, log, number)
            if self._abandoned:
                attempt.kill()
            elif self._cancelled or self._suspended:
                attempt.stop(Why.CANCELLED if self._cancelled else Why.PREEMPTED)
            outcome = await attempt.wait(float(str(self._execution["template"]["timeout"]).removesuffix("s")))
        except (ContainerError, OSError) as error:  # an OSError: no space for its files, or no process to be had
            outcome = Outcome(Why.FAILED, None, None, str(error))
            log.platform(f"The container could not be started: {error}", "ERROR")
        finally:
            self._active.pop(index, None)
            if group:
                self._report_memory(group, log)
                group.remove()
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        for key in ("pid", "group", "born"):
            record.pop(key, None)
        record.update(ended_at=timestamp(), exit_code=outcome.exit_code, signal=outcome.signal, why=str(outcome.why))
        record["message"] = outcome.message
        if outcome.exit_code is not None:
            log.platform(
                f"Container called exit({outcome.exit_code}).", "INFO" if outcome.exit_code == 0 else "WARNING"
            )
        elif outcome.signal is not None:
            log.platform(f"Container terminated on signal {outcome.signal}.", "WARNING")
        return outcome

    def _limit_memory(self, own: str, log: AttemptLog) -> memory.MemoryGroup | None:
        limit = self._memory_limit()
        group = memory.create(own, memory.quantity_bytes(limit))
        if group is None:
            log.platform(
                "The local cloud cannot limit memory on this machine (no memory control group may be made): "
                f"{limit} is not enforced.",
                "NOTICE",
            )
        return group

    def _memory_limit(self) -> str:
        return str(self._execution["template"]["containers"][0]["resources"]["limits"]["memory"])

    def _report_memory(self, group: memory.MemoryGroup, log: AttemptLog) -> None:
        if group.overran():
            used = group.peak_bytes() // 2**20
            log.platform(
                f"Memory limit of {memory.quantity_bytes(self._memory_limit()) // 2**20} MiB exceeded with {used} "
                "MiB used. "
                "Consider increasing the memory limit, see https://cloud.google.com/run/docs/configuring/memory-limits",
                "ERROR",
            )

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


def _outcome(attempt: Json) -> Outcome:
    return Outcome(Why(attempt["why"]), attempt["exit_code"], attempt["signal"], attempt.get("message", ""))


def _born(pid: int) -> float | None:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).create_time()
    return None
