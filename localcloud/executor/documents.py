"""Execution and task documents as Cloud Run v2 shows them: fields, counters and conditions."""

import copy
from enum import StrEnum

from localcloud.executor.attempt import Outcome, Why
from localcloud.jsontypes import Json, obj, objects
from localcloud.resources import etag, parse_timestamp, suffix, timestamp, unique_id

_STATES = ("runningCount", "succeededCount", "failedCount", "cancelledCount", "retriedCount")


class TaskState(StrEnum):
    """Where a task stands; the last three are ends."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED})


def condition(kind: str, state: str, message: str = "", **more: str) -> Json:
    """One condition, as of now."""
    built: Json = {"type": kind, "state": f"CONDITION_{state}", "lastTransitionTime": timestamp(), **more}
    if message:
        built["message"] = message
    return built


def new_execution(job: Json, overrides: Json, log_uri: str) -> Json:
    """A fresh execution of the job with the overrides applied; `logUri` gets its name appended."""
    name, now = str(job["name"]), timestamp()
    short = name.rsplit("/", 1)[-1]
    template = copy.deepcopy(obj(obj(job["template"])["template"]))
    _override(template, overrides)
    task_count = int(overrides.get("taskCount") or job["template"].get("taskCount", 1))
    own = f"{short}-{suffix()}"
    execution: Json = {
        "name": f"{name}/executions/{own}",
        "uid": unique_id(),
        "creator": "local@localhost",
        "generation": "1",
        "labels": {**obj(job["template"].get("labels"))},
        "annotations": {**obj(job["template"].get("annotations"))},
        "createTime": now,
        "updateTime": now,
        "launchStage": job.get("launchStage", "GA"),
        "job": short,
        "parallelism": min(int(job["template"].get("parallelism") or task_count), task_count),
        "taskCount": task_count,
        "template": template,
        "reconciling": True,
        "conditions": [
            condition("Completed", "RECONCILING", "Waiting for execution to complete."),
            condition("ResourcesAvailable", "SUCCEEDED", "Provisioned imported containers."),
            condition("Started", "PENDING"),
        ],
        "observedGeneration": "1",
        "logUri": log_uri + own,
    }
    return _sealed(execution)


def _override(template: Json, overrides: Json) -> None:
    if overrides.get("timeout"):
        template["timeout"] = overrides["timeout"]
    containers = objects(template["containers"])
    for change in objects(overrides.get("containerOverrides")):
        wanted = change.get("name")
        container = next((each for each in containers if not wanted or each.get("name") == wanted), containers[0])
        if change.get("clearArgs"):
            container.pop("args", None)
        elif change.get("args"):
            container["args"] = change["args"]
        if change.get("env"):
            merged = {each["name"]: each for each in [*objects(container.get("env")), *objects(change["env"])]}
            container["env"] = list(merged.values())


def new_task(execution: Json, index: int) -> Json:
    """A task that has not begun."""
    template, own = obj(execution["template"]), str(execution["name"]).rsplit("/", 1)[-1]
    now = timestamp()
    task: Json = {
        "name": f"{execution['name']}/tasks/{own}-task{index}",
        "uid": unique_id(),
        "generation": "1",
        "labels": execution["labels"],
        "createTime": now,
        "updateTime": now,
        "job": execution["job"],
        "execution": own,
        "containers": template["containers"],
        "volumes": template.get("volumes", []),
        "maxRetries": template["maxRetries"],
        "timeout": template["timeout"],
        "serviceAccount": template.get("serviceAccount", ""),
        "executionEnvironment": template["executionEnvironment"],
        "reconciling": True,
        "conditions": [condition("Completed", "PENDING")],
        "observedGeneration": "1",
        "index": index,
        "retried": 0,
        "logUri": f"{execution['logUri']}&task={index}",
    }
    for field in ("gpuZonalRedundancyDisabled", "nodeSelector"):
        if field in template:
            task[field] = template[field]
    return _sealed(task)


def task_began(task: Json, retried: int) -> Json:
    """The task's next attempt runs."""
    now = timestamp()
    task.setdefault("scheduledTime", now)
    task.setdefault("startTime", now)
    task["retried"] = retried
    task["conditions"] = [condition("Completed", "RECONCILING"), condition("Started", "SUCCEEDED")]
    return _sealed(task)


def task_attempted(task: Json, outcome: Outcome) -> Json:
    """An attempt of the task ended; the task itself may go on."""
    result: Json = {"status": {}}
    if outcome.message:
        result["status"] = {"code": 4 if outcome.why is Why.TIMEOUT else 2, "message": outcome.message}
    if outcome.signal is not None:
        result["termSignal"] = outcome.signal
    elif outcome.exit_code is not None:
        result["exitCode"] = outcome.exit_code
    task["lastAttemptResult"] = result
    return _sealed(task)


def task_ended(task: Json, state: TaskState, message: str) -> Json:
    """The task has reached its end."""
    task["completionTime"] = timestamp()
    task["reconciling"] = False
    task["conditions"] = [_completed(state, message), condition("Started", "SUCCEEDED")]
    return _sealed(task)


def _completed(state: TaskState, message: str) -> Json:
    if state is TaskState.SUCCEEDED:
        return condition("Completed", "SUCCEEDED", message)
    reason = "CANCELLED" if state is TaskState.CANCELLED else "NON_ZERO_EXIT_CODE"
    return condition("Completed", "FAILED", message, executionReason=reason)


def counted(execution: Json, states: list[TaskState], retried: int) -> Json:
    """The execution's counters for these task states. As in the API's JSON, a counter of zero is left out."""
    for field in _STATES:
        execution.pop(field, None)
    tally = {f"{state}Count": states.count(state) for state in TaskState if state is not TaskState.PENDING}
    tally["retriedCount"] = retried
    execution.update({key: value for key, value in tally.items() if value})
    if any(state is not TaskState.PENDING for state in states) and "startTime" not in execution:
        execution["startTime"] = timestamp()
        execution["conditions"][2] = condition("Started", "SUCCEEDED", "Started deployed execution.")
    return _sealed(execution)


def execution_ended(execution: Json, failures: list[Json]) -> Json:
    """All tasks have ended; `failures` are the tasks that failed for good."""
    now = timestamp()
    execution["completionTime"] = now
    execution["reconciling"] = False
    began = parse_timestamp(str(execution.get("startTime", now)))
    took_s = (parse_timestamp(now) - began).total_seconds()
    if failures:
        first = failures[0]
        own, said = str(first["name"]).rsplit("/", 1)[-1], first["conditions"][0].get("message", "")
        completed = _completed(TaskState.FAILED, f"Task {own} failed with message: {said}")
    elif execution.get("cancelledCount"):
        completed = _completed(TaskState.CANCELLED, "The execution was cancelled.")
    else:
        completed = _completed(TaskState.SUCCEEDED, f"Execution completed successfully in {took_s:.2f}s.")
    execution["conditions"] = [completed, *execution["conditions"][1:]]
    return _sealed(execution)


def execution_reference(execution: Json) -> Json:
    """The job's `latestCreatedExecution`."""
    reference: Json = {"name": str(execution["name"]).rsplit("/", 1)[-1], "createTime": execution["createTime"]}
    if "completionTime" not in execution:
        return {**reference, "completionStatus": "EXECUTION_RUNNING"}
    status = "SUCCEEDED"
    if execution.get("failedCount"):
        status = "FAILED"
    elif execution.get("cancelledCount"):
        status = "CANCELLED"
    return {**reference, "completionTime": execution["completionTime"], "completionStatus": f"EXECUTION_{status}"}


def _sealed(doc: Json) -> Json:
    doc["updateTime"] = timestamp()
    doc.pop("etag", None)
    doc["etag"] = f'"{etag(doc)}"'
    return doc
