"""Cloud Run Admin API v2: jobs and their policies."""

import copy

from localcloud import secret_versions
from localcloud.executor.documents import condition, execution_reference
from localcloud.jsontypes import Json, obj, objects
from localcloud.kinds import Kind
from localcloud.resources import etag, timestamp, unique_id
from localcloud.server import operations, policies, run_schema
from localcloud.server.errors import ApiError, aborted, already_exists, not_found
from localcloud.server.http import Call, Routes, page
from localcloud.server.run_executions import (
    JOB_TYPE,
    JOBS,
    check_etag,
    delete_executions,
    job_name,
    parent,
    stored_job,
)
from localcloud.server.run_rules import check_job, check_job_id, seconds

routes = Routes("/run/v2", "/v2")
# Google's Python clients send enums as numbers.
_LAUNCH_STAGES = {
    1: "EARLY_ACCESS",
    2: "ALPHA",
    3: "BETA",
    4: "GA",
    5: "DEPRECATED",
    6: "UNIMPLEMENTED",
    7: "PRELAUNCH",
}
_ENVIRONMENTS = {1: "EXECUTION_ENVIRONMENT_GEN1", 2: "EXECUTION_ENVIRONMENT_GEN2"}
_NOT_DESIRED = frozenset({"name", "etag", *run_schema.OUTPUT_ONLY})
_MEDIA = {1: "MEMORY", 2: "DISK"}


def _shown(call: Call, job: Json) -> Json:
    """The job as it is answered: with what its executions tell."""
    executions = call.cloud.store.list(Kind.EXECUTION, f"{job['name']}/executions/")
    latest = execution_reference(executions[-1]) if executions else {}
    return {**job, "latestCreatedExecution": latest, **({"executionCount": len(executions)} if executions else {})}


def _normalized(body: Json) -> Json:
    """The desired state: output-only fields dropped, enums by name, defaults filled in as the API does; the rest
    echoed."""
    job = {key: value for key, value in copy.deepcopy(body).items() if key not in _NOT_DESIRED}
    stage = job.get("launchStage", "GA")
    job["launchStage"] = _LAUNCH_STAGES.get(stage, "GA") if isinstance(stage, int) else stage
    execution = job.setdefault("template", {})
    execution["taskCount"] = execution.get("taskCount") or 1
    task = execution.setdefault("template", {})
    for key, value in (("timeout", "600s"), ("maxRetries", 3), ("executionEnvironment", "EXECUTION_ENVIRONMENT_GEN2")):
        task.setdefault(key, value)
    environment = task["executionEnvironment"]
    if isinstance(environment, int):
        environment = _ENVIRONMENTS.get(environment, "EXECUTION_ENVIRONMENT_GEN2")
    task["executionEnvironment"] = environment.replace(
        "EXECUTION_ENVIRONMENT_UNSPECIFIED", "EXECUTION_ENVIRONMENT_GEN2"
    )
    for container in objects(task.get("containers")):
        limits = container.setdefault("resources", {}).setdefault("limits", {})
        limits.setdefault("cpu", "1000m")
        limits.setdefault("memory", "512Mi")
    for volume in objects(task.get("volumes")):
        empty = volume.get("emptyDir")
        if isinstance(empty, dict) and isinstance(empty.get("medium"), int):
            empty["medium"] = _MEDIA.get(empty["medium"], "MEMORY")
    return job


def _launch_stage(job: Json) -> str:
    """On output the stage says whether preview features are used: a GPU task above one hour is one."""
    task = obj(obj(job["template"])["template"])
    gpu = any(
        "nvidia.com/gpu" in obj(obj(each.get("resources")).get("limits")) for each in objects(task.get("containers"))
    )
    preview = gpu and seconds("timeout", str(task["timeout"])) > 3600
    return job["launchStage"] if preview else "GA"


def _accepted(call: Call, body: Json) -> Json:
    run_schema.check(body, run_schema.JOB, "job")
    job = _normalized(body)
    check_job(job, call.params["location"], call.cloud.settings)
    account = str(obj(job["template"]["template"]).get("serviceAccount", ""))
    own = account.endswith(f"@{call.params['project']}.iam.gserviceaccount.com")
    if own and call.cloud.store.get(Kind.ACCOUNT, account) is None:
        raise ApiError(
            403, f"Permission 'iam.serviceaccounts.actAs' denied on service account {account} (or it may not exist)."
        )
    job["launchStage"] = _launch_stage(job)
    return job


def _unreadable(call: Call, job: Json) -> str:
    """Why no task of the job could get its secrets, one reason a line."""
    template = obj(obj(job["template"])["template"])
    return "\n".join(secret_versions.unreadable(call.cloud.store, call.params["project"], template))


def _sealed(job: Json) -> Json:
    job.pop("etag", None)
    job["etag"] = f'"{etag(job)}"'
    return job


def _created(name: str, desired: Json) -> Json:
    now = timestamp()
    return _sealed(
        {
            "name": name,
            "uid": unique_id(),
            "generation": "1",
            **desired,
            "createTime": now,
            "updateTime": now,
            "creator": "local@localhost",
            "lastModifier": "local@localhost",
            "observedGeneration": "1",
            "terminalCondition": condition("Ready", "SUCCEEDED"),
        }
    )


@routes.on("POST", JOBS)
def create_job(call: Call) -> Json:
    """Create a job; `validateOnly` checks and stores nothing."""
    job_id = call.query.get("jobId", "")
    check_job_id(job_id)
    name = f"{parent(call)}/jobs/{job_id}"
    if call.cloud.store.get(Kind.JOB, name) is not None:
        raise already_exists(name)
    job = _created(name, _accepted(call, call.body))
    if missing := _unreadable(call, job):
        return operations.failed(call.cloud.store, parent(call), JOB_TYPE, job, missing)
    if not call.flag("validateOnly"):
        call.cloud.store.put(Kind.JOB, name, job)
    return operations.done(call.cloud.store, parent(call), JOB_TYPE, _shown(call, job))


@routes.on("GET", JOBS)
def list_jobs(call: Call) -> Json:
    """Jobs of a location."""
    return page(call, [_shown(call, job) for job in call.cloud.store.list(Kind.JOB, f"{parent(call)}/jobs/")], "jobs")


@routes.on("GET", JOBS + "/{job}")
def get_job(call: Call) -> Json:
    """One job."""
    return _shown(call, stored_job(call))


@routes.on("PATCH", JOBS + "/{job}")
def update_job(call: Call) -> Json:
    """Replace the desired state by the whole body."""
    name, store = job_name(call), call.cloud.store
    old = store.get(Kind.JOB, name)
    if old is None and not call.flag("allowMissing"):
        raise not_found(name)
    if old is not None and call.body.get("etag") not in (None, "", old["etag"]):
        raise aborted(f"Conflict for resource '{name}': its etag is {old['etag']}, not {call.body['etag']}.")
    desired = _accepted(call, call.body)
    job = _created(name, desired)
    if missing := _unreadable(call, job):
        return operations.failed(store, parent(call), JOB_TYPE, job, missing)
    if old is not None:
        generation = str(int(old["generation"]) + 1)
        job.update({key: old[key] for key in ("uid", "createTime", "creator")})
        job = _sealed({**job, "generation": generation, "observedGeneration": generation})
    if not call.flag("validateOnly"):
        store.put(Kind.JOB, name, job)
    return operations.done(store, parent(call), JOB_TYPE, _shown(call, job))


@routes.on("DELETE", JOBS + "/{job}")
async def delete_job(call: Call) -> Json:
    """Remove the job with its executions; those that run are killed first."""
    job, store = _shown(call, stored_job(call)), call.cloud.store
    check_etag(call, job)
    if not call.flag("validateOnly"):
        await delete_executions(call, f"{job['name']}/executions/")
        store.delete(Kind.JOB, job["name"])
        policies.drop(store, f"run.googleapis.com/{job['name']}")
    return operations.done(store, parent(call), JOB_TYPE, {**job, "deleteTime": timestamp()})


def _policy_key(call: Call) -> str:
    return f"run.googleapis.com/{stored_job(call)['name']}"


policies.serve(routes, JOBS + "/{job}", _policy_key)
