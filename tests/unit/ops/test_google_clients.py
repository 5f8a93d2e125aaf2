"""Google's own clients against prepared answers: what is asked, and what becomes of each answer."""

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from ops.cloud import connect_to
from ops.errors import MisconfiguredError, MissingError, RefusedError, UnreachableError
from ops.google_logs import CloudLogging
from ops.google_run import CloudRun
from ops.google_storage import BucketCheckpoints
from ops.model import State
from tests.unit.ops.fakes import OUTPUTS
from tests.unit.ops.google_stub import JOB, Stub

GET_ONE = f"GET /v2/{JOB}/executions/job-one"
NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def completed(state: str, reason: str | None = None, message: str = "") -> dict[str, Any]:
    condition = {"type": "Completed", "state": state, "message": message}
    return {"conditions": [{**condition, "executionReason": reason} if reason else condition]}


def one(name: str = "job-one", **fields: Any) -> dict[str, Any]:
    return {"name": f"{JOB}/executions/{name}", "createTime": "2026-01-31T12:00:00Z", "taskCount": 1, **fields}


STARTED = {"startTime": "2026-01-31T12:00:05Z", "runningCount": 1}
ENDED = {"completionTime": "2026-01-31T13:00:00Z", "startTime": "2026-01-31T12:00:05Z"}


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, State.WAITING),
        (completed("CONDITION_PENDING"), State.WAITING),
        ({**STARTED, **completed("CONDITION_RECONCILING")}, State.RUNNING),
        ({**STARTED, **completed("CONDITION_RECONCILING", "CANCELLING")}, State.CANCELLING),
        ({**ENDED, **completed("CONDITION_SUCCEEDED"), "succeededCount": 1}, State.SUCCEEDED),
        ({**ENDED, **completed("CONDITION_FAILED", "NON_ZERO_EXIT_CODE"), "failedCount": 1}, State.FAILED),
        ({**ENDED, **completed("CONDITION_FAILED", "CANCELLED"), "cancelledCount": 1}, State.CANCELLED),
        ({**ENDED, **completed("CONDITION_FAILED"), "cancelledCount": 1}, State.CANCELLED),
        ({**ENDED, **completed("CONDITION_FAILED"), "cancelledCount": 1, "failedCount": 1}, State.FAILED),
    ],
)
def test_the_state_of_an_execution_is_its_completed_condition(google: Stub, fields: dict[str, Any], state: State):
    google.answer(GET_ONE, one(**fields))
    assert CloudRun(google.outputs).execution("job-one").state is state


def test_executions_are_listed_over_all_pages_newest_first(google: Stub):
    listing = f"GET /v2/{JOB}/executions"
    google.answer(listing, {"executions": [one("job-old", createTime="2026-01-30T12:00:00Z")], "nextPageToken": "more"})
    google.answer(listing, {"executions": [one("job-new")]})
    assert [e.name for e in CloudRun(google.outputs).executions()] == ["job-new", "job-old"]


def test_a_task_tells_attempt_retries_and_how_the_last_attempt_ended(google: Stub):
    task = {"name": f"{JOB}/executions/job-one/tasks/t", "maxRetries": 3, "startTime": "2026-01-31T12:00:05Z"}
    results = [
        {"lastAttemptResult": {"status": {"code": 2}, "exitCode": 143}, "retried": 1},
        {"index": 1, "lastAttemptResult": {"status": {"code": 2}, "termSignal": 9}, "retried": 2},
        {"index": 2, "lastAttemptResult": {"status": {"code": 13, "message": "Memory limit exceeded."}}},
        {"index": 3, **completed("CONDITION_SUCCEEDED"), "lastAttemptResult": {"status": {}}},
        {"index": 4},
    ]
    google.answer(f"GET /v2/{JOB}/executions/job-one/tasks", {"tasks": [{**task, **result} for result in results]})
    tasks = CloudRun(google.outputs).tasks("job-one")
    assert [(t.attempt, t.retries_left) for t in tasks[:2]] == [(1, 2), (2, 1)]
    results_ = [t.result for t in tasks]
    assert [(r.exit_code, r.signal, r.message) if r else None for r in results_] == [
        (143, None, ""),
        (None, 9, ""),
        (None, None, "Memory limit exceeded."),
        (0, None, ""),
        None,
    ]


def test_run_sends_the_arguments_and_returns_the_executions_name(google: Stub):
    metadata = {"@type": "type.googleapis.com/google.cloud.run.v2.Execution", **one("job-new")}
    google.answer(f"POST /v2/{JOB}:run", {"name": "projects/p/locations/l/operations/o", "metadata": metadata})
    assert CloudRun(google.outputs).start(["countdown", "--steps", "9"]) == "job-new"
    assert google.requests[0][1]["overrides"]["containerOverrides"] == [{"args": ["countdown", "--steps", "9"]}]
    CloudRun(google.outputs).start([])
    assert "overrides" not in google.requests[1][1]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_answer_that_may_pass_is_told_from_a_refusal(google: Stub, status: int):
    google.refuse(f"POST /v2/{JOB}:run", status, "The service is currently unavailable.")
    with pytest.raises(UnreachableError, match=rf"cannot run job job now \({status}: .*currently unavailable"):
        CloudRun(google.outputs).start([])
    assert len(google.requests) == 1


def test_a_refusal_names_the_role(google: Stub):
    google.refuse(f"POST /v2/{JOB}:run", 403, "Permission 'run.jobs.run' denied.")
    with pytest.raises(
        RefusedError, match=r"\(403: Permission 'run.jobs.run' denied\).*roles/run.developer in project p"
    ):
        CloudRun(google.outputs).start([])
    google.refuse(f"POST /v2/{JOB}/executions/job-one:cancel", 400, "Already completed.")
    with pytest.raises(RefusedError, match="400: Already completed"):
        CloudRun(google.outputs).cancel("job-one")


def test_a_missing_job_and_a_missing_execution_are_told_apart(google: Stub):
    with pytest.raises(MissingError, match=r"no job job in europe-west4 of project p.*pulumi refresh"):
        CloudRun(google.outputs).start([])
    with pytest.raises(MissingError, match="Job job has no execution job-one"):
        CloudRun(google.outputs).execution("job-one")


def test_a_local_cloud_that_is_not_running_is_named(google: Stub):
    outputs = Stub(port=1).outputs
    for ask in (CloudRun(outputs).executions, lambda: list(CloudLogging(outputs).lines("job-one", NOON))):
        with pytest.raises(
            UnreachableError, match=r"local cloud does not answer at http://127.0.0.1:1/.*gpujob local start"
        ):
            ask()


def test_the_log_is_asked_for_from_a_moment_on_and_read_over_all_pages(google: Stub):
    labels = {f"run.googleapis.com/{name}": value for name, value in (("task_index", "0"), ("task_attempt", "1"))}
    entry = {"logName": "projects/p/logs/stdout", "timestamp": "2026-01-31T12:00:01.5Z", "labels": labels}
    listing = "POST /logging/v2/entries:list"
    google.answer(
        listing,
        {
            "entries": [
                {**entry, "insertId": "a", "severity": "INFO", "jsonPayload": {"message": "step 1/9", "step": 1}}
            ],
            "nextPageToken": "more",
        },
    )
    google.answer(listing, {"entries": [{**entry, "insertId": "b", "textPayload": "plain", "labels": {}}]})
    lines = list(CloudLogging(google.outputs).lines("job-one", NOON))
    assert [(x.message, x.severity, x.task, x.attempt) for x in lines] == [
        ("step 1/9", "INFO", "0", "1"),
        ("plain", "DEFAULT", "", ""),
    ]
    asked = google.requests[0][1]
    assert asked["orderBy"] == "timestamp asc"
    assert 'timestamp>="2026-01-31T12:00:00.000000Z"' in asked["filter"]
    assert 'labels."run.googleapis.com/execution_name"="job-one"' in asked["filter"]


def test_the_durable_step_is_read_from_the_newest_ledger(google: Stub):
    names = ["job-task-0/ledger/e0001-aa.json", "job-task-0/ledger/e0002-bb.json"]
    google.answer("GET /storage/v1/b/bucket/o", {"items": [{"name": name} for name in names]})
    document = {"execution": "job-one", "last_durable_step": 40, "reason": "finished"}
    google.answer("GET /download/storage/v1/b/bucket/o/job-task-0%2Fledger%2Fe0002-bb.json", document)
    assert str(BucketCheckpoints(google.outputs).durable(0)) == "step 40, finished"


def test_a_bucket_that_refuses_leaves_the_step_not_known(google: Stub):
    google.refuse("GET /storage/v1/b/bucket/o", 403, "no storage.objects.list access")
    durable = BucketCheckpoints(google.outputs).durable(0)
    assert (durable.known, str(durable)) == (False, "not known")
    assert "roles/storage.objectViewer on the bucket" in durable.reason


def test_without_credentials_the_real_cloud_is_not_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/does/not/exist.json")
    monkeypatch.setenv(
        "STORAGE_EMULATOR_HOST", "http://127.0.0.1:1"
    )  # left over from the local cloud: must not be used
    for ask in (CloudRun(OUTPUTS).executions, lambda: list(CloudLogging(OUTPUTS).lines("job-one", NOON))):
        with pytest.raises(
            MisconfiguredError, match=r"No usable Google credentials.*gcloud auth application-default login"
        ):
            ask()
    assert "No usable Google credentials" in BucketCheckpoints(OUTPUTS).durable(0).reason


def test_a_proxy_is_not_asked_for_the_local_cloud(google: Stub, monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "example.com")
    google.answer(GET_ONE, one())
    assert connect_to(google.outputs).runs.execution("job-one").name == "job-one"
    assert os.environ["NO_PROXY"].startswith("example.com,")
