"""Cloud Run Admin API v2: executions of a job, and their tasks."""

from localcloud.build.images import parse
from localcloud.jsontypes import Json, obj, objects
from localcloud.kinds import Kind
from localcloud.resources import timestamp, unique_id
from localcloud.server import operations, run_schema
from localcloud.server.errors import aborted, failed_precondition, invalid
from localcloud.server.http import Call, Routes, page
from localcloud.server.run_rules import seconds

JOB_TYPE = "google.cloud.run.v2.Job"
EXECUTION_TYPE = "google.cloud.run.v2.Execution"
routes = Routes("/run/v2", "/v2")
JOBS = "/projects/{project}/locations/{location}/jobs"
_EXECUTIONS = JOBS + "/{job}/executions"
_TASKS = _EXECUTIONS + "/{execution}/tasks"


def parent(call: Call) -> str:
    """Project and location of the request."""
    return "projects/{project}/locations/{location}".format(**call.params)


def job_name(call: Call) -> str:
    """Full name of the request's job."""
    return f"{parent(call)}/jobs/{call.params['job']}"


def stored_job(call: Call) -> Json:
    """The request's job.

    Raises:
        ApiError: 404 when there is none.
    """
    return call.stored(Kind.JOB, job_name(call))


def check_etag(call: Call, doc: Json) -> None:
    """Refuse a DELETE that names another etag than the current one."""
    if call.query.get("etag") not in (None, "", doc["etag"]):
        raise aborted(f"Conflict for resource '{doc['name']}': its etag is {doc['etag']}, not {call.query['etag']}.")


async def delete_executions(call: Call, prefix: str) -> None:
    """Remove everything below the prefix; what runs of it is killed first."""
    store = call.cloud.store
    await call.cloud.executor.cancel_and_wait(store.names(Kind.EXECUTION, prefix))
    with store.transaction():
        for kind in (Kind.EXECUTION, Kind.TASK, Kind.ATTEMPTS, Kind.CANCELLED):
            for name in store.names(kind, prefix):
                store.delete(kind, name)


@routes.on("POST", JOBS + "/{job}:run")
def run_job(call: Call) -> Json:
    """Begin an execution; the operation ends when it does."""
    job, store = stored_job(call), call.cloud.store
    if call.body.get("etag") not in (None, "", job["etag"]):
        raise aborted(f"Conflict for resource '{job['name']}': its etag is {job['etag']}, not {call.body['etag']}.")
    overrides = obj(call.body.get("overrides"))
    _check_overrides(overrides)
    image = str(job["template"]["template"]["containers"][0]["image"])
    reference = parse(image)
    own = reference is not None and reference.project == call.params["project"]
    if reference is not None and own and call.cloud.executor.images.document(reference) is None:
        raise failed_precondition(
            f"Image '{image}' not found. No execution was started. Build and push it (Cloud Build answers at "
            f"/v1/projects/{reference.project}/builds), or point the job at an image that exists."
        )
    if call.body.get("validateOnly"):
        return operations.done(store, parent(call), JOB_TYPE, job)
    execution = call.cloud.executor.start(job, overrides)
    name = f"{parent(call)}/operations/{unique_id()}"
    operations.follow(store, name, Kind.EXECUTION, execution["name"])
    return operations.get(store, name)


def _check_overrides(overrides: Json) -> None:
    run_schema.check(overrides, run_schema.OVERRIDES, "overrides")
    if overrides.get("timeout"):
        seconds("overrides.timeout", str(overrides["timeout"]))
    for change in objects(overrides.get("containerOverrides")):
        if change.get("clearArgs") and change.get("args"):
            raise invalid("overrides.container_overrides: args and clear_args cannot be set at the same time.")


def _execution(call: Call) -> Json:
    return call.stored(Kind.EXECUTION, f"{job_name(call)}/executions/{call.params['execution']}")


@routes.on("GET", _EXECUTIONS)
def list_executions(call: Call) -> Json:
    """Executions of a job (`-`: of every job), newest first."""
    prefix = f"{parent(call)}/jobs/" + ("" if call.params["job"] == "-" else f"{call.params['job']}/")
    return page(call, call.cloud.store.list(Kind.EXECUTION, prefix)[::-1], "executions")


@routes.on("GET", _EXECUTIONS + "/{execution}")
def get_execution(call: Call) -> Json:
    """One execution."""
    return _execution(call)


@routes.on("POST", _EXECUTIONS + "/{execution}:cancel")
def cancel_execution(call: Call) -> Json:
    """SIGTERM, grace, SIGKILL for every task; the operation follows the execution to its end."""
    execution = _execution(call)
    if "completionTime" in execution:
        raise failed_precondition(f"Execution '{execution['name']}' has already completed; there is nothing to cancel.")
    call.cloud.executor.cancel(execution["name"])
    name = f"{parent(call)}/operations/{unique_id()}"
    operations.follow(call.cloud.store, name, Kind.EXECUTION, execution["name"])
    return operations.get(call.cloud.store, name)


@routes.on("DELETE", _EXECUTIONS + "/{execution}")
async def delete_execution(call: Call) -> Json:
    """Remove an execution; one that runs is killed first."""
    execution = _execution(call)
    check_etag(call, execution)
    await call.cloud.executor.cancel_and_wait([execution["name"]])
    store = call.cloud.store
    store.delete(Kind.EXECUTION, execution["name"])
    await delete_executions(call, f"{execution['name']}/")
    return operations.done(store, parent(call), EXECUTION_TYPE, {**execution, "deleteTime": timestamp()})


@routes.on("GET", _TASKS)
def list_tasks(call: Call) -> Json:
    """Tasks of an execution."""
    execution = _execution(call)
    return page(call, call.cloud.store.list(Kind.TASK, f"{execution['name']}/tasks/"), "tasks")


@routes.on("GET", _TASKS + "/{task}")
def get_task(call: Call) -> Json:
    """One task."""
    return call.stored(Kind.TASK, f"{_execution(call)['name']}/tasks/{call.params['task']}")
