"""Shows executions as tables: each task's attempt, retries left, state, exit code and last durable step."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from ops.choose import newest, short_name
from ops.cloud import Cloud
from ops.model import Durable, Execution, State, Task
from ops.text import clock_time, execution_text, result_text

SHOWN_TASKS = 50


def show_status(cloud: Cloud, typed: str | None, console: Console) -> None:
    """The execution that was named; else all that run; else the newest."""
    for execution in _selected(cloud, typed):
        show_execution(cloud, execution, console)


def show_execution(cloud: Cloud, execution: Execution, console: Console) -> None:
    """One execution: its state, a row for each task (the unfinished first if they are many), its log."""
    tasks = cloud.runs.tasks(execution.name)
    shown = sorted(tasks, key=lambda task: (task.state.ended, task.index))[:SHOWN_TASKS]
    durable = {task.index: _durable(cloud, execution, task) for task in shown}
    _print(console, f"{execution_text(execution)}, started {clock_time(execution.created_at)}")
    console.print(task_table(sorted(shown, key=lambda task: task.index), durable))
    if len(shown) < len(tasks):
        _print(console, f"{len(tasks) - len(shown)} more tasks are not shown.")
    for reason in sorted({step.reason for step in durable.values() if not step.known}):
        _print(console, f"Durable steps are not known: {reason}")
    if execution.message:
        _print(console, execution.message)
    _print(console, f"Log: gpujob logs {execution.name}" + (f"  {execution.log_url}" if execution.log_url else ""))


def task_table(tasks: Iterable[Task], durable: dict[int, Durable]) -> Table:
    """Attempts count from 0, as in the log; "exit" is that of the latest attempt which has ended."""
    table = Table("task", "attempt", "retries left", "state", "exit", "last durable step", "since")
    for task in tasks:
        table.add_row(
            str(task.index),
            str(task.attempt),
            str(task.retries_left),
            task.state,
            result_text(task.result),
            str(durable[task.index]),
            clock_time(task.since),
        )
    return table


def _durable(cloud: Cloud, execution: Execution, task: Task) -> Durable:
    # A task that waits has no attempt in the ledger yet: it will resume where the line stands.
    return cloud.checkpoints.durable(task.index, None if task.state is State.WAITING else execution.name)


def _selected(cloud: Cloud, typed: str | None) -> list[Execution]:
    if typed is not None:
        return [cloud.runs.execution(short_name(cloud, typed))]
    unfinished = [execution for execution in cloud.runs.executions() if not execution.state.ended]
    return unfinished or [newest(cloud)]


def _print(console: Console, text: str) -> None:
    # Links and messages stay in one piece, and their brackets are not mark-up.
    console.print(text, markup=False, highlight=False, soft_wrap=True)
