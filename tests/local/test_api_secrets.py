"""Secrets by pinned version: a job that could not get one is refused in Cloud Run's words; a task gets the content."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from localcloud.testing import Cloud
from tests.local.conftest import PARENT, PROJECT, Caller, Jobs

SECRETS = f"/secretmanager/v1/projects/{PROJECT}/secrets"
ACCOUNT = f"gpu-job-sa@{PROJECT}.iam.gserviceaccount.com"
ACCESSOR = "roles/secretmanager.secretAccessor"
WHERE = "spec.template.spec.containers[0].env[0].value_from.secret_key_ref.name"


@pytest.fixture
def secret(cloud: Cloud, call: Caller) -> str:
    """A secret with one version, which the job's account may read."""
    call.ok("POST", f"/iam/v1/projects/{PROJECT}/serviceAccounts", {"accountId": "gpu-job-sa", "serviceAccount": {}})
    call.ok("POST", f"{SECRETS}?secretId=api-token", {"replication": {"automatic": {}}})
    add(call, "first")
    policy = {"bindings": [{"role": ACCESSOR, "members": [f"serviceAccount:{ACCOUNT}"]}]}
    call.ok("POST", f"{SECRETS}/api-token:setIamPolicy", {"policy": policy})
    return f"projects/{PROJECT}/secrets/api-token"


def add(call: Caller, content: str) -> dict[str, Any]:
    data = base64.b64encode(content.encode()).decode()
    return call.ok("POST", f"{SECRETS}/api-token:addVersion", {"payload": {"data": data}})


def job(call: Caller, secret: str, version: str, code: str = "pass") -> dict[str, Any]:
    """The operation that creates a job with this secret as its variable API_TOKEN."""
    env = [{"name": "API_TOKEN", "valueSource": {"secretKeyRef": {"secret": secret, "version": version}}}]
    container = {"image": "example.com/any/image:1", "command": ["python", "-c", code], "env": env}
    container["resources"] = {"limits": {"cpu": "1", "memory": "512Mi"}}
    template = {"containers": [container], "maxRetries": 0, "timeout": "60s", "serviceAccount": ACCOUNT}
    return call.ok("POST", f"{PARENT}/jobs?jobId=job", {"template": {"template": template}})


def exists(call: Caller) -> bool:
    return call("GET", f"{PARENT}/jobs/job").status_code == 200


@pytest.mark.parametrize("named", ["short", "full"])
def test_a_job_with_a_version_that_is_there_is_made_and_its_task_gets_the_content(
    call: Caller, jobs: Jobs, secret: str, named: str
) -> None:
    add(call, "second")
    given = secret if named == "full" else "api-token"
    assert "error" not in job(call, given, "1", "import os; print('it is ' + os.environ['API_TOKEN'])")
    execution = jobs.run()
    jobs.finished(execution)
    assert "it is first" in jobs.lines(execution)


@pytest.mark.parametrize(("name", "version"), [("api-token", "2"), ("other", "1")])
def test_a_version_that_does_not_exist_is_refused_in_the_services_words(
    call: Caller, secret: str, name: str, version: str
) -> None:
    full = secret.replace("api-token", name)
    error = job(call, full, version)["error"]
    assert error == {"code": 9, "message": f"{WHERE}: Secret {full}/versions/{version} was not found"}
    assert not exists(call)


def test_a_disabled_version_is_refused(call: Caller, secret: str) -> None:
    call.ok("POST", f"{SECRETS}/api-token/versions/1:disable", {})
    assert job(call, secret, "1")["error"]["message"] == f"{WHERE}: Secret {secret}/versions/1 is in DISABLED state"


def test_an_account_without_the_grant_is_refused_with_the_role_that_it_needs(call: Caller, secret: str) -> None:
    call.ok("POST", f"{SECRETS}/api-token:setIamPolicy", {"policy": {}})
    message = job(call, secret, "1")["error"]["message"]
    assert message.startswith(f"{WHERE}: Permission denied on secret: {secret}/versions/1 for Revision service account")
    assert ACCESSOR in message


def test_a_version_that_went_away_ends_the_attempt_and_says_which(call: Caller, jobs: Jobs, secret: str) -> None:
    job(call, secret, "1")
    call.ok("POST", f"{SECRETS}/api-token/versions/1:destroy", {})
    execution = jobs.run()
    jobs.finished(execution)
    assert any(f'Could not fetch secret "{secret}/versions/1"' in line for line in jobs.lines(execution))


def test_content_is_only_answered_to_who_asks_for_it(call: Caller, secret: str) -> None:
    assert call.ok("GET", f"/v1/{secret}/versions/latest:access")["payload"]["data"] == "Zmlyc3Q="
    for path in ("", "/versions", "/versions/1"):
        assert "Zmlyc3Q=" not in call("GET", f"{SECRETS}/api-token{path}").text


def test_a_deleted_secret_leaves_nothing(call: Caller, secret: str) -> None:
    assert f"//secretmanager.googleapis.com/{secret}" in call.ok("GET", "/_localcloud/inventory")["resources"]
    call.ok("DELETE", f"{SECRETS}/api-token")
    assert not [name for name in call.ok("GET", "/_localcloud/inventory")["resources"] if "secret" in name]
    assert call("GET", f"{SECRETS}/api-token/versions/1").status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("?secretId=", {"replication": {"automatic": {}}}),
        ("?secretId=a.b", {"replication": {"automatic": {}}}),
        ("?secretId=fine", {}),
        ("/api-token:addVersion", {"payload": {"data": "no base64!"}}),
    ],
)
def test_what_secret_manager_would_not_take_is_refused(
    call: Caller, secret: str, path: str, body: dict[str, Any]
) -> None:
    assert call("POST", SECRETS + path, body).status_code == 400
