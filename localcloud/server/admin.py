"""The local cloud's own API below /_localcloud: status, inventory, interruptions, and its end."""

import asyncio
import os
import shutil
import signal

from starlette.responses import PlainTextResponse, Response

from localcloud import VERSION
from localcloud.build.builder import BUILD
from localcloud.executor.attempt import Why
from localcloud.executor.documents import ATTEMPTS, EXECUTION
from localcloud.jsontypes import Json, obj, objects
from localcloud.server import policies
from localcloud.server.errors import ApiError, not_found
from localcloud.server.http import Call, Routes

routes = Routes("/_localcloud")
_RESOURCES = {
    "run.job": "//run.googleapis.com/",
    "storage.bucket": "//storage.googleapis.com/b/",
    "iam.account": "//iam.googleapis.com/",
    "artifactregistry.repository": "//artifactregistry.googleapis.com/",
    "artifactregistry.image": "//artifactregistry.googleapis.com/",
    "logging.metric": "//logging.googleapis.com/",
    "monitoring": "//monitoring.googleapis.com/",
    "scheduler.job": "//cloudscheduler.googleapis.com/",
}


@routes.on("GET", "/status")
def status(call: Call) -> Json:
    """Who answers here, and what runs."""
    names = [*call.cloud.store.names("run.job"), *call.cloud.store.names("artifactregistry.repository")]
    accounts = {str(each["projectId"]) for each in call.cloud.store.list("iam.account")}
    buckets = {str(each["_project"]) for each in call.cloud.store.list("storage.bucket")}
    return {
        "version": VERSION,
        "pid": os.getpid(),
        "port": call.cloud.port,
        "state_dir": str(call.cloud.settings.state_dir.resolve()),
        "projects": sorted({name.split("/")[1] for name in names} | accounts | buckets),
        "running_executions": call.cloud.executor.running(),
    }


@routes.on("GET", "/inventory")
def inventory(call: Call) -> Json:
    """Full names of everything that exists.

    Services and builds are apart: they are history, which no `destroy` removes.
    """
    store, found = call.cloud.store, list[str]()
    for kind, prefix in _RESOURCES.items():
        for document, name in zip(store.list(kind), store.names(kind), strict=True):
            found.append(prefix + str(document["name"] if kind == "iam.account" else name))
    found += [f"//{resource} (IAM policy)" for resource in policies.non_empty(store)]
    services = store.names("serviceusage.service")
    return {"resources": sorted(found), "services": sorted(services), "builds": store.names(BUILD)}


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


@routes.on("GET", "/executions/{execution}")
def execution(call: Call) -> Json:
    """Every attempt of every task."""
    wanted = call.params["execution"]
    store = call.cloud.store
    name = next((each for each in store.names(EXECUTION) if each.rsplit("/", 1)[-1] == wanted), None)
    if name is None:
        raise not_found(f"execution {wanted}")
    tasks = sorted(store.list(ATTEMPTS, f"{name}/tasks/"), key=lambda record: int(record["index"]))
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
