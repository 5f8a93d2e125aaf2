"""Jobs as documents: defaults the live API fills in, echoes without drift, updates, etags, paging, policies."""

import copy
from typing import Any

import pytest
from google.cloud import run_v2

from localcloud.server import run_schema

PARENT = "/run/v2/projects/local-project/locations/europe-west4"
SMALL = {"template": {"template": {"containers": [{"image": "example.com/any/image:1"}]}}}


def test_the_defaults_of_the_live_api_are_filled_in(call: Any) -> None:
    job = call.ok("POST", f"{PARENT}/jobs?jobId=job", SMALL)["response"]
    task = job["template"]["template"]
    assert job["template"]["taskCount"] == 1
    assert (task["timeout"], task["maxRetries"]) == ("600s", 3)
    assert task["executionEnvironment"] == "EXECUTION_ENVIRONMENT_GEN2"
    assert task["containers"][0]["resources"]["limits"] == {"cpu": "1000m", "memory": "512Mi"}
    assert (job["launchStage"], job["generation"], job["latestCreatedExecution"]) == ("GA", "1", {})
    assert job["terminalCondition"]["state"] == "CONDITION_SUCCEEDED"


def test_zero_retries_stay_zero(call: Any) -> None:
    body = copy.deepcopy(SMALL)
    body["template"]["template"]["maxRetries"] = 0
    assert call.ok("POST", f"{PARENT}/jobs?jobId=job", body)["response"]["template"]["template"]["maxRetries"] == 0


def test_what_is_sent_comes_back_as_it_was_sent(call: Any) -> None:
    body = copy.deepcopy(SMALL)
    task = body["template"]["template"]
    task["timeout"] = "3600s"
    task["volumes"] = [{"name": "v", "gcs": {"bucket": "some-bucket", "mountOptions": ["z=1", "a"]}}]
    container = task["containers"][0]
    container["resources"] = {"limits": {"cpu": "2000m", "memory": "1024Mi"}}
    container["env"] = [{"name": "Z", "value": "1"}, {"name": "A"}]
    container["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    call.ok("POST", f"{PARENT}/jobs?jobId=job", body)
    shown = call.ok("GET", f"{PARENT}/jobs/job")["template"]["template"]
    assert {key: shown[key] for key in task} == task


def test_a_launch_stage_comes_back_only_when_a_preview_feature_is_used(call: Any) -> None:
    body = {**copy.deepcopy(SMALL), "launchStage": "BETA"}
    assert call.ok("POST", f"{PARENT}/jobs?jobId=job", body)["response"]["launchStage"] == "GA"


def test_an_update_replaces_the_whole_and_counts(call: Any) -> None:
    body = {**copy.deepcopy(SMALL), "labels": {"a": "b"}}
    created = call.ok("POST", f"{PARENT}/jobs?jobId=job", body)["response"]
    updated = call.ok("PATCH", f"{PARENT}/jobs/job", SMALL)["response"]
    assert "labels" not in updated
    assert updated["generation"] == "2"
    assert (updated["uid"], updated["createTime"]) == (created["uid"], created["createTime"])
    assert updated["etag"] != created["etag"]


def test_a_stale_etag_is_refused_and_nothing_changed(call: Any) -> None:
    created = call.ok("POST", f"{PARENT}/jobs?jobId=job", SMALL)["response"]
    call.ok("PATCH", f"{PARENT}/jobs/job", {**SMALL, "etag": created["etag"]})
    answer = call("PATCH", f"{PARENT}/jobs/job", {**SMALL, "etag": created["etag"]})
    assert (answer.status_code, answer.json()["error"]["status"]) == (409, "ABORTED")
    assert call("DELETE", f"{PARENT}/jobs/job?etag=%22old%22").status_code == 409


def test_jobs_are_listed_in_pages(call: Any) -> None:
    for number in range(5):
        call.ok("POST", f"{PARENT}/jobs?jobId=job-{number}", SMALL)
    seen: list[str] = []
    token = ""
    while True:
        page = call.ok("GET", f"{PARENT}/jobs?pageSize=2&pageToken={token}")
        seen += [job["name"].rsplit("/", 1)[-1] for job in page["jobs"]]
        token = page.get("nextPageToken", "")
        if not token:
            break
    assert seen == [f"job-{number}" for number in range(5)]


def test_a_policy_of_a_stale_etag_is_refused(call: Any) -> None:
    call.ok("POST", f"{PARENT}/jobs?jobId=job", SMALL)
    policy = call.ok("GET", f"{PARENT}/jobs/job:getIamPolicy")
    binding = {"role": "roles/run.invoker", "members": ["user:a@b.c"]}
    sent = {"policy": {"bindings": [binding], "etag": policy["etag"]}}
    assert call.ok("POST", f"{PARENT}/jobs/job:setIamPolicy", sent)["bindings"] == [binding]
    again = call("POST", f"{PARENT}/jobs/job:setIamPolicy", sent)
    assert (again.status_code, again.json()["error"]["status"]) == (409, "ABORTED")
    assert call.ok("GET", "/_localcloud/inventory")["resources"] == [
        "//run.googleapis.com/projects/local-project/locations/europe-west4/jobs/job",
        "//run.googleapis.com/projects/local-project/locations/europe-west4/jobs/job (IAM policy)",
    ]


def test_an_address_that_nothing_serves_is_named_in_the_refusal(call: Any) -> None:
    answer = call("GET", "/run/v2/projects/local-project/locations/europe-west4/services")
    assert answer.status_code == 404
    assert "does not serve GET /run/v2/projects/local-project" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("message", "schema"),
    [
        (run_v2.Job, run_schema.JOB),
        (run_v2.ExecutionTemplate, run_schema.EXECUTION),
        (run_v2.TaskTemplate, run_schema.TASK),
        (run_v2.Container, run_schema.CONTAINER),
        (run_v2.Volume, run_schema.VOLUME),
        (run_v2.VolumeMount, run_schema.CONTAINER["volumeMounts"][0]),
        (run_v2.EnvVar, run_schema.ENV),
        (run_v2.RunJobRequest.Overrides, run_schema.OVERRIDES),
        (run_v2.RunJobRequest.Overrides.ContainerOverride, run_schema.OVERRIDES["containerOverrides"][0]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_of_googles_own_messages_is_known(message: Any, schema: dict[str, Any]) -> None:
    """A field that their newest client knows and the table does not would be refused by mistake."""
    assert {field.json_name for field in message.pb().DESCRIPTOR.fields} - set(schema) == set()
