"""Runs executions: their tasks side by side, attempt after attempt, and everything that interrupts them.

A task's processes die with the server that runs them, as a container dies with its machine. A server that starts
again ends what is left of them, books the open attempts as `killed`, and goes on with the next attempt while retries
remain.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Iterable

import psutil

from localcloud.build.images import Images
from localcloud.executor import documents, memory
from localcloud.executor.attempt import Why
from localcloud.executor.documents import TaskState
from localcloud.executor.execution import ExecutionRun, Machine
from localcloud.jsontypes import Json, objects
from localcloud.kinds import Kind
from localcloud.logs.store import LogStore
from localcloud.resources import timestamp
from localcloud.settings import Settings
from localcloud.store import Store


class Executor:
    """All executions of one local cloud."""

    def __init__(self, settings: Settings, store: Store, logs: LogStore, images: Images, url: str) -> None:
        self.images = images
        self._machine = Machine(settings, store, logs, images, url)
        self._store = store
        self._runs: dict[str, ExecutionRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job: Json, overrides: Json) -> Json:
        """Create and begin an execution of the job; answers its document."""
        execution = documents.new_execution(job, overrides, f"{self._machine.url}/_localcloud/logs?execution=")
        with self._store.transaction():
            self._store.put(Kind.EXECUTION, execution["name"], execution)
            for index in range(execution["taskCount"]):
                task = documents.new_task(execution, index)
                self._store.put(Kind.TASK, task["name"], task)
                self._store.put(
                    Kind.ATTEMPTS, task["name"], {"index": index, "state": TaskState.PENDING, "attempts": []}
                )
        self._begin(execution)
        return execution

    def _begin(self, execution: Json) -> None:
        run = ExecutionRun(self._machine, execution)
        self._runs[execution["name"]] = run
        task = asyncio.ensure_future(run.run())
        self._tasks.add(task)

        def ended(finished: asyncio.Task[None]) -> None:
            self._tasks.discard(finished)
            self._runs.pop(execution["name"], None)

        task.add_done_callback(ended)

    def recover(self) -> None:
        """Take up what an earlier server left: its processes are ended, open attempts booked, executions continued."""
        for name in self._store.names(Kind.ATTEMPTS):
            record = self._store.get(Kind.ATTEMPTS, name) or {}
            for attempt in objects(record.get("attempts")):
                if attempt["ended_at"] is None:
                    _end_leftover(attempt)
                    attempt.update(ended_at=timestamp(), signal=int(signal.SIGKILL), why=str(Why.KILLED))
            self._store.put(Kind.ATTEMPTS, name, record)
        shutil.rmtree(self._machine.settings.attempts_dir, ignore_errors=True)
        for execution in self._store.list(Kind.EXECUTION):
            if "completionTime" not in execution:
                self._begin(execution)

    def running(self) -> list[str]:
        """Names of the executions under way."""
        return sorted(self._runs)

    def cancel(self, execution: str) -> None:
        """End every task of the execution as Cloud Run does: SIGTERM, grace, SIGKILL; nothing is retried."""
        run = self._runs.get(execution)
        if run is not None:
            run.cancel()

    async def cancel_and_wait(self, executions: Iterable[str]) -> None:
        """Kill these executions at once and wait until nothing of them runs (their job is deleted)."""
        for name in executions:
            run = self._runs.get(name)
            if run is not None:
                run.abandon()
                await run.finished.wait()

    def interrupt(self, how: Why, execution: str | None, index: int | None) -> list[Json]:
        """Preempt or kill running attempts; without a name, those of every execution. Answers what was signalled."""
        signalled: list[Json] = []
        for name, run in self._runs.items():
            if execution in (None, name, name.rsplit("/", 1)[-1]):
                signalled += [
                    {"execution": name.rsplit("/", 1)[-1], "task_index": task, "attempt": attempt}
                    for task, attempt in run.interrupt(how, index)
                ]
        return signalled

    async def shutdown(self) -> None:
        """End everything that runs, with the grace of a preemption; executions go on when a server starts again."""
        for run in self._runs.values():
            run.suspend()
        if self._tasks:
            await asyncio.wait(set(self._tasks))


def _end_leftover(attempt: Json) -> None:
    """Kill what an attempt of an earlier server left running, if the process id still is that process's."""
    group = memory.existing(str(attempt["group"])) if attempt.get("group") else None
    if group:
        group.kill()
        group.remove()
    pid = attempt.get("pid")
    if pid is None:
        return
    for process in psutil.process_iter():
        # Its leader may be gone while others of its process group run on; the session id tells them.
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == pid and process.create_time() >= (attempt.get("born") or 0) - 1:
                os.kill(process.pid, signal.SIGKILL)
