"""Cancels an execution, waits until it has ended, and says what of its work remains."""

from collections.abc import Callable

from ops.choose import running, short_name
from ops.clock import patiently
from ops.cloud import Cloud
from ops.errors import RefusedError, UnreachableError
from ops.model import Execution
from ops.text import clock_time

LIMIT_S = 180.0
"""A task gets 10 s after SIGTERM; the rest is the platform's own time."""


def cancel(cloud: Cloud, typed: str | None, say: Callable[[str], None]) -> Execution:
    """Ends the named execution, or the only one that runs. Raises RefusedError if it has ended already."""
    execution = cloud.runs.execution(short_name(cloud, typed)) if typed is not None else running(cloud)
    if execution.state.ended:
        raise RefusedError(
            f"Execution {execution.name} ended at {clock_time(execution.ended_at)} ({execution.state}): "
            "there is nothing to cancel, and its checkpoints are kept."
        )
    cloud.runs.cancel(execution.name)
    say(f"Cancelling {execution.name}: each task gets SIGTERM and 10 s to save.")
    ended = _await_end(cloud, execution.name, say)
    say(f"Execution {ended.name} has ended: {ended.state}.")
    for task in range(min(ended.task_count, 10)):
        say(what_remains(cloud, task))
    if ended.task_count > 10:
        say(f"Tasks 10 to {ended.task_count - 1}: see `gpujob status {ended.name}`.")
    return ended


def what_remains(cloud: Cloud, task: int) -> str:
    """One sentence on the checkpoint from which the next execution will go on."""
    durable = cloud.checkpoints.durable(task)
    if not durable.known:
        return f"Task {task}: the last durable step is not known. {durable.reason}"
    if durable.step is None:
        return f"Task {task}: nothing was saved; the next execution starts from the beginning."
    later = " or a later one" if durable.at_least else ""
    return f"Task {task}: step {durable.step}{later} is durable; the next execution resumes there."


def _await_end(cloud: Cloud, name: str, say: Callable[[str], None]) -> Execution:
    # The execution is watched rather than the operation: it says how the tasks ended, and outlives the operation.
    began = cloud.clock.monotonic()
    while True:
        execution = patiently(cloud.clock, lambda: cloud.runs.execution(name), say)
        if execution.state.ended:
            return execution
        if cloud.clock.monotonic() - began > LIMIT_S:
            raise UnreachableError(
                f"Execution {name} was told to end {LIMIT_S:.0f} s ago and has not: the platform is still working "
                f"on it, and it may still be billed. Look again with `gpujob status {name}`."
            )
        cloud.clock.sleep(cloud.pace_s)
