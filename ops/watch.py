"""Watches one execution until it ends, and tells what changed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ops.clock import patiently
from ops.cloud import Cloud
from ops.errors import NotSucceededError
from ops.model import Execution, State, Task
from ops.text import execution_text, result_sentence, task_text

MANY_TASKS = 50
"""Above it only counters are watched: listing thousands of tasks every few seconds would use up the API's quota."""


@dataclass(frozen=True)
class Snapshot:
    """An execution and its tasks at one moment."""

    execution: Execution
    tasks: tuple[Task, ...]


def look(cloud: Cloud, name: str) -> Snapshot:
    """The state of an execution now."""
    execution = cloud.runs.execution(name)
    return Snapshot(execution, tuple(cloud.runs.tasks(name)) if execution.task_count <= MANY_TASKS else ())


def watch(cloud: Cloud, name: str, say: Callable[[str], None]) -> Execution:
    """Says each change of state and returns the execution once it has ended. Outlives a bad network."""
    before: Snapshot | None = None
    while True:
        after = patiently(cloud.clock, lambda: look(cloud, name), say)
        for line in changes(before, after):
            say(f"{cloud.clock.now():%H:%M:%S} {line}")
        if after.execution.state.ended:
            return after.execution
        before = after
        cloud.clock.sleep(cloud.pace_s)


def changes(before: Snapshot | None, after: Snapshot) -> Iterator[str]:
    """What an operator wants to hear of, a line each."""
    old = {task.index: task for task in before.tasks} if before else {}
    for task in after.tasks:
        was = old.get(task.index)
        if was is None and task.state is State.WAITING:
            continue
        if was is not None and task.attempt > was.attempt:
            # The result is that of the attempt that ended last: with the task ended too, that is its last attempt.
            how = "between two looks; the log says how" if task.state.ended else result_sentence(task.result)
            yield f"task {task.index}: attempt {task.attempt - 1} ended, {how}"
        if was is None or (task.state, task.attempt) != (was.state, was.attempt):
            yield task_text(task)
    if before is None or execution_text(before.execution) != execution_text(after.execution):
        yield execution_text(after.execution)


def require_success(execution: Execution) -> None:
    """Raises NotSucceededError unless the execution succeeded."""
    if execution.state is State.SUCCEEDED:
        return
    how = "was cancelled" if execution.state is State.CANCELLED else "failed"
    said = f": {execution.message.rstrip('.')}" if execution.message else ""
    raise NotSucceededError(
        f"Execution {execution.name} {how}{said}. "
        f"Checkpoints on the bucket are kept. `gpujob logs {execution.name}` shows why it ended, and whether another "
        "`gpujob run` can help: it resumes from the last durable step, unless the log says that retrying cannot help."
    )
