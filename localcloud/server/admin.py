"""The local cloud's own API below /_localcloud: status, inventory, interruptions, and its end."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator

from starlette.responses import PlainTextResponse, Response

from localcloud import VERSION
from localcloud.executor.attempt import Why
from localcloud.jsontypes import Json, obj, objects
from localcloud.kinds import Kind
from localcloud.server import policies
from localcloud.server.errors import ApiError, not_found
from localcloud.server.http import Call, Routes
from localcloud.store import Store

routes = Routes("/_localcloud")
RESOURCES = {
    Kind.JOB: "//run.googleapis.com/",
    Kind.BUCKET: "//storage.googleapis.com/b/",
    Kind.ACCOUNT: "//iam.googleapis.com/",
    Kind.REPOSITORY: "//artifactregistry.googleapis.com/",
    Kind.IMAGE: "//artifactregistry.googleapis.com/",
    Kind.METRIC: "//logging.googleapis.com/",
    Kind.MONITORING: "//monitoring.googleapis.com/",
    Kind.SCHEDULED_JOB: "//cloudscheduler.googleapis.com/",
    Kind.SECRET: "//secretmanager.googleapis.com/",
}
"""What the inventory lists, and how each full name begins."""
NOT_RESOURCES = {
    Kind.EXECUTION: "goes with its job",
    Kind.TASK: "goes with its job",
    Kind.ATTEMPTS: "goes with its job",
    Kind.CANCELLED: "goes with its job",
    Kind.SECRET_VERSION: "goes with its secret",
    Kind.POLICY: "listed where it grants something: one without bindings is what every resource has",
    Kind.SERVICE: "listed apart: which services are enabled is left as it is by a `destroy`",
    Kind.BUILD: "listed apart: history, which nothing removes",
    Kind.OPERATION: "history, which nothing removes",
}
"""What it does not list among the resources, and why."""


def _resources(store: Store) -> Iterator[tuple[str, str]]:
    """(full name, project) of every resource."""
    for kind, prefix in RESOURCES.items():
        for name, document in zip(store.names(kind), store.list(kind), strict=True):
            own = str(document["name"]) if kind is Kind.ACCOUNT else name
            yield prefix + own, str(document["_project"]) if kind is Kind.BUCKET else own.split("/")[1]


@routes.on("GET", "/status")
def status(call: Call) -> Json:
    """Who answers here, and what runs."""
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "port": call.cloud.port,
        "state_dir": str(call.cloud.settings.state_dir.resolve()),
        "projects": sorted({project for _, project in _resources(call.cloud.store)}),
        "running_executions": call.cloud.executor.running(),
    }


@routes.on("GET", "/inventory")
def inventory(call: Call) -> Json:
    """Full names of everything that exists; what is no resource is apart or left out, see `NOT_RESOURCES`."""
    store = call.cloud.store
    found = [name for name, _ in _resources(store)]
    found += [f"//{resource} (IAM policy)" for resource in policies.non_empty(store)]
    return {
        "resources": sorted(found),
        "services": sorted(store.names(Kind.SERVICE)),
        "builds": store.names(Kind.BUILD),
    }


def _interrupt(call: Call, how: Why) -> Json:
    index = call.body.get("task_index")
    if index is not None and not isinstance(index, int):
        raise ApiError(400, f"task_index must be a number, not {index!r}.")
    execution = call.body.get("execution")
    signalled = call.cloud.executor.interrupt(how, str(execution) if execution else None, index)
    if not signalled:
        running = [name.rsplit("/", 1)[-1] for name in call.cloud.executor.running()]
        whom = f"execution {execution}" if execution else "any execution"
        task = "" if index is None else f", task {index},"
        raise ApiError(
            409,
            f"Nothing to interrupt: {whom}{task} has no attempt running now. Nothing was signalled. "
            f"Running executions: {', '.join(running) or 'none'}.",
            status="FAILED_PRECONDITION",
        )
    return {"signalled": signalled}


@routes.on("POST", "/preempt")
def preempt(call: Call) -> Json:
    """Maintenance: the platform's log line, SIGTERM, grace, SIGKILL. The attempt counts as a retry."""
    return _interrupt(call, Why.PREEMPTED)


@routes.on("POST", "/kill")
def kill(call: Call) -> Json:
    """The machine is lost: SIGKILL at once, no line in the log."""
    return _interrupt(call, Why.KILLED)


@routes.on("GET", "/hold")
def holding(call: Call) -> Json:
    """How many changes there were since it was armed, and whether it stands still now."""
    return {"changes": call.cloud.hold.changes, "holding": call.cloud.hold.holding}


@routes.on("POST", "/hold")
async def hold(call: Call) -> Json:
    """Stand still at the change of number `after`, counted from now; without it, go on."""
    after = call.body.get("after")
    if after is not None and (not isinstance(after, int) or after < 1):
        raise ApiError(400, f"after must be a number from 1, not {after!r}.")
    call.cloud.hold.arm(after)
    return {}


@routes.on("GET", "/executions/{execution}")
def execution(call: Call) -> Json:
    """Every attempt of every task."""
    wanted = call.params["execution"]
    store = call.cloud.store
    name = next((each for each in store.names(Kind.EXECUTION) if each.rsplit("/", 1)[-1] == wanted), None)
    if name is None:
        raise not_found(f"execution {wanted}")
    tasks = sorted(store.list(Kind.ATTEMPTS, f"{name}/tasks/"), key=lambda record: int(record["index"]))
    fields = ("attempt", "started_at", "ended_at", "exit_code", "signal", "why")
    for task in tasks:
        task["attempts"] = [{field: attempt[field] for field in fields} for attempt in objects(task["attempts"])]
    return {"execution": name, "tasks": tasks}


@routes.on("GET", "/logs")
def logs(call: Call) -> Response:
    """The log of an execution or a build as text: where `logUri` and `logUrl` lead."""
    execution, build, task = (call.query.get(key, "") for key in ("execution", "build", "task"))

    def matches(entry: Json) -> bool:
        labels = obj(entry.get("labels"))
        if build:
            return obj(obj(entry.get("resource")).get("labels")).get("build_id") == build
        own = labels.get("run.googleapis.com/execution_name") == execution
        return own and task in ("", labels.get("run.googleapis.com/task_index"))

    lines: list[str] = []
    for project in call.cloud.logs.projects():
        for entry in call.cloud.logs.read(project, matches):
            payload = obj(entry.get("jsonPayload"))
            text = entry.get("textPayload") or payload.get("message") or payload
            lines.append(f"{entry['timestamp']} {entry.get('severity', 'DEFAULT'):8} {text}")
    return PlainTextResponse("\n".join(lines) + "\n" if lines else "")


@routes.on("POST", "/reset")
async def reset(call: Call) -> Json:
    """Forget every resource, object and log entry; running executions are killed."""
    cloud = call.cloud
    cloud.hold.arm(None)
    await cloud.executor.cancel_and_wait(cloud.executor.running())
    cloud.store.clear()
    cloud.logs.clear()
    for directory in (cloud.settings.buckets_dir, cloud.settings.images_dir, cloud.settings.attempts_dir):
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
    cloud.settings.buckets_dir.mkdir(parents=True)
    return {}


@routes.on("POST", "/stop")
def stop(_call: Call) -> Json:
    """End the server as SIGTERM does: running tasks get their grace, and go on when it starts again."""
    os.kill(os.getpid(), signal.SIGTERM)
    return {}
