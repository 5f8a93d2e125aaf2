"""Which execution a command means when none, or only a name, was typed."""

import re

from ops.cloud import Cloud
from ops.errors import MisconfiguredError, MissingError, RefusedError
from ops.model import Execution

_SHORT = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def short_name(cloud: Cloud, typed: str) -> str:
    """Accepts a short name, or the full resource name of an execution of this very job."""
    name = typed.removeprefix(f"{cloud.outputs.job_id}/executions/")
    if not _SHORT.fullmatch(name):
        raise MisconfiguredError(
            f"{typed!r} does not name an execution of {cloud.outputs.job_id}. Nothing was asked of the cloud. "
            "Give the short name, such as `gpujob status` prints."
        )
    return name


def newest(cloud: Cloud) -> Execution:
    """The newest execution. Raises MissingError if the job never ran."""
    executions = cloud.runs.executions()
    if not executions:
        raise MissingError(
            f"Job {cloud.outputs.job_name} has no execution yet. Nothing runs and nothing is billed. "
            "Start one with `gpujob run`."
        )
    return executions[0]


def running(cloud: Cloud) -> Execution:
    """The one execution that has not ended. Raises RefusedError if there are several, or none."""
    found = [execution for execution in cloud.runs.executions() if not execution.state.ended]
    if not found:
        raise RefusedError(
            f"No execution of job {cloud.outputs.job_name} is running: nothing to cancel, and nothing is billed."
        )
    if len(found) > 1:
        names = ", ".join(execution.name for execution in found)
        raise RefusedError(f"{len(found)} executions are running: {names}. None was cancelled. Say which one.")
    return found[0]
