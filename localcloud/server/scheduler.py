"""Cloud Scheduler v1: jobs are kept and answered; nothing is triggered by the clock."""

from localcloud.jsontypes import Json
from localcloud.kinds import Kind
from localcloud.resources import timestamp
from localcloud.server.errors import already_exists, invalid
from localcloud.server.http import Call, Routes, page
from localcloud.server.masks import masked

routes = Routes("/scheduler/v1")
_JOBS = "/projects/{project}/locations/{location}/jobs"


def _job(call: Call) -> Json:
    return call.stored(Kind.SCHEDULED_JOB, "projects/{project}/locations/{location}/jobs/{job}".format(**call.params))


def _store(call: Call, job: Json) -> Json:
    if len(str(job.get("schedule", "")).split()) != 5:
        raise invalid(f"Schedule or time zone is invalid: {job.get('schedule', '')!r} has not five fields.")
    job["userUpdateTime"] = timestamp()
    call.cloud.store.put(Kind.SCHEDULED_JOB, job["name"], job)
    return job


@routes.on("POST", _JOBS)
def create_job(call: Call) -> Json:
    """Create a scheduled job."""
    name = str(call.body.get("name", ""))
    parent = "projects/{project}/locations/{location}/jobs/".format(**call.params)
    if not name.startswith(parent) or name == parent:
        raise invalid(f'Job name must be formatted: "{parent}<JOB_ID>", not {name!r}.')
    if call.cloud.store.get(Kind.SCHEDULED_JOB, name) is not None:
        raise already_exists(name)
    defaults: Json = {"timeZone": "Etc/UTC", "attemptDeadline": "180s", "retryConfig": {"maxRetryDuration": "0s"}}
    return _store(call, {**defaults, **call.body, "state": "ENABLED"})


@routes.on("GET", _JOBS)
def list_jobs(call: Call) -> Json:
    """Scheduled jobs of a location."""
    parent = "projects/{project}/locations/{location}/jobs/".format(**call.params)
    return page(call, call.cloud.store.list(Kind.SCHEDULED_JOB, parent), "jobs")


@routes.on("GET", _JOBS + "/{job}")
def get_job(call: Call) -> Json:
    """One scheduled job."""
    return _job(call)


@routes.on("PATCH", _JOBS + "/{job}")
def patch_job(call: Call) -> Json:
    """Change a scheduled job."""
    return _store(call, masked(_job(call), call.body, call.query.get("updateMask", "")))


@routes.on("DELETE", _JOBS + "/{job}")
def delete_job(call: Call) -> Json:
    """Remove a scheduled job."""
    call.cloud.store.delete(Kind.SCHEDULED_JOB, _job(call)["name"])
    return {}


@routes.on("POST", _JOBS + "/{job}:pause")
def pause_job(call: Call) -> Json:
    """Pause."""
    return _store(call, {**_job(call), "state": "PAUSED"})


@routes.on("POST", _JOBS + "/{job}:resume")
def resume_job(call: Call) -> Json:
    """Resume."""
    return _store(call, {**_job(call), "state": "ENABLED"})
