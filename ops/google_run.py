"""Executions of one job through Google's Cloud Run client, on the real cloud and on the local one alike.

The client speaks REST in both cases, so that what is tried locally is what runs against Google.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ops.google_credentials import anonymous_if_local
from ops.google_errors import TIMEOUT_S, Asking, asking
from ops.model import AttemptResult, Execution, State, Task
from ops.stack import StackOutputs

if TYPE_CHECKING:
    from google.cloud import run_v2

VIEWER, DEVELOPER = "roles/run.viewer", "roles/run.developer"


class CloudRun:
    """The `Runs` of a deployed job."""

    def __init__(self, outputs: StackOutputs) -> None:
        self._outputs = outputs

    def executions(self) -> list[Execution]:
        with asking(self._about_job("list the executions of", VIEWER), self._outputs):
            found = [
                execution_from(e)
                for e in self._executions.list_executions(parent=self._outputs.job_id, timeout=TIMEOUT_S)
            ]
        return sorted(found, key=lambda execution: execution.created_at, reverse=True)

    def execution(self, name: str) -> Execution:
        with asking(self._about_execution("read", name, VIEWER), self._outputs):
            return execution_from(self._executions.get_execution(name=self._full(name), timeout=TIMEOUT_S))

    def tasks(self, execution: str) -> list[Task]:
        with asking(self._about_execution("list the tasks of", execution, VIEWER), self._outputs):
            found = [
                task_from(task) for task in self._tasks.list_tasks(parent=self._full(execution), timeout=TIMEOUT_S)
            ]
        return sorted(found, key=lambda task: task.index)

    def start(self, args: Sequence[str]) -> str:
        from google.cloud import run_v2

        override = run_v2.RunJobRequest.Overrides.ContainerOverride(args=list(args))
        overrides = run_v2.RunJobRequest.Overrides(container_overrides=[override]) if args else None
        request = run_v2.RunJobRequest(name=self._outputs.job_id, overrides=overrides)
        with asking(self._about_job("run", DEVELOPER), self._outputs):
            operation: Any = self._jobs.run_job(request=request, timeout=TIMEOUT_S)
            return _short(operation.metadata.name)

    def cancel(self, name: str) -> None:
        with asking(self._about_execution("cancel", name, DEVELOPER, safe="It may still be running."), self._outputs):
            self._executions.cancel_execution(name=self._full(name), timeout=TIMEOUT_S)

    def _full(self, execution: str) -> str:
        return f"{self._outputs.job_id}/executions/{execution}"

    def _about_job(self, action: str, role: str) -> Asking:
        job = self._outputs.job_name
        return Asking(
            service="Cloud Run",
            action=f"{action} job {job}",
            role=role,
            missing=f"There is no job {job} in {self._outputs.region} of project {self._outputs.project}, though the "
            "stack exports it: it was deleted behind Pulumi's back. `pulumi refresh` and then "
            "`pulumi up` make it again.",
            safe="Its checkpoints are untouched.",
        )

    def _about_execution(self, action: str, name: str, role: str, safe: str = "Nothing was changed.") -> Asking:
        return Asking(
            service="Cloud Run",
            action=f"{action} execution {name}",
            role=role,
            missing=f"Job {self._outputs.job_name} has no execution {name}. `gpujob status` shows the newest; the "
            "platform forgets the oldest beyond 1000 a job.",
            safe=safe,
        )

    def _options(self, kind: Any) -> Any:
        """The REST transport `kind`, aimed at the stack's endpoint if there is one."""
        url = self._outputs.endpoints.get("run")
        if url is None:
            return kind()
        parts = urlsplit(url)
        return kind(host=parts.netloc, url_scheme=parts.scheme, credentials=anonymous_if_local(url))

    @cached_property
    def _jobs(self) -> "run_v2.JobsClient":
        from google.cloud import run_v2
        from google.cloud.run_v2.services.jobs.transports.rest import JobsRestTransport

        return run_v2.JobsClient(transport=self._options(JobsRestTransport))

    @cached_property
    def _executions(self) -> "run_v2.ExecutionsClient":
        from google.cloud import run_v2
        from google.cloud.run_v2.services.executions.transports.rest import ExecutionsRestTransport

        return run_v2.ExecutionsClient(transport=self._options(ExecutionsRestTransport))

    @cached_property
    def _tasks(self) -> "run_v2.TasksClient":
        from google.cloud import run_v2
        from google.cloud.run_v2.services.tasks.transports.rest import TasksRestTransport

        return run_v2.TasksClient(transport=self._options(TasksRestTransport))


def execution_from(message: Any) -> Execution:
    """From google.cloud.run_v2.Execution (a proto-plus message, whose fields carry no usable types)."""
    state, said = _state(message, started=bool(message.start_time) or message.running_count > 0)
    return Execution(
        name=_short(message.name),
        state=state,
        created_at=_time(message.create_time) or datetime.fromtimestamp(0, UTC),
        ended_at=_time(message.completion_time),
        task_count=max(1, message.task_count),
        running=message.running_count,
        succeeded=message.succeeded_count,
        failed=message.failed_count,
        cancelled=message.cancelled_count,
        log_url=message.log_uri,
        message=said,
    )


def task_from(message: Any) -> Task:
    """From google.cloud.run_v2.Task."""
    state, _ = _state(message, started=bool(message.start_time))
    started, ended = _time(message.start_time), _time(message.completion_time)
    return Task(
        index=message.index,
        state=state,
        attempt=message.retried,
        max_retries=message.max_retries,
        result=_result(message.last_attempt_result) if "last_attempt_result" in message else None,
        since=ended or started or _time(message.create_time),
    )


def _result(message: Any) -> AttemptResult:
    if message.term_signal:
        return AttemptResult(exit_code=None, signal=message.term_signal, message=message.status.message)
    if message.exit_code == 0 and message.status.code != 0:
        # It could not end with a code of its own: the status says why.
        return AttemptResult(exit_code=None, signal=None, message=message.status.message)
    return AttemptResult(exit_code=message.exit_code, signal=None, message=message.status.message)


def _state(message: Any, *, started: bool) -> tuple[State, str]:
    """State and words of the condition `Completed`, which executions and tasks share."""
    from google.cloud.run_v2 import Condition

    for condition in message.conditions:
        if condition.type_ != "Completed":
            continue
        if condition.state == Condition.State.CONDITION_SUCCEEDED:
            return State.SUCCEEDED, condition.message
        if condition.state == Condition.State.CONDITION_FAILED:
            return _end_without_success(message, condition), condition.message
        if condition.execution_reason == Condition.ExecutionReason.CANCELLING:
            return State.CANCELLING, condition.message
    return State.RUNNING if started else State.WAITING, ""


def _end_without_success(message: Any, condition: Any) -> State:
    reasons = type(condition).ExecutionReason
    if condition.execution_reason == reasons.CANCELLED:
        return State.CANCELLED
    # Where no reason is given, the counters of an execution tell (a task has none).
    unsaid = condition.execution_reason == reasons.EXECUTION_REASON_UNDEFINED
    cancelled = getattr(message, "cancelled_count", 0) > 0 and message.failed_count == 0
    return State.CANCELLED if unsaid and cancelled else State.FAILED


def _time(stamp: Any) -> datetime | None:
    return stamp.astimezone(UTC) if stamp else None


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1]
