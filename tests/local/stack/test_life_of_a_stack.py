"""What a person does with a stack, with the literal commands: nothing drifts, one setting changes one thing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import requests

from tests.local.stack.support import JOB_TYPE, TREE, LocalStack

CHANNEL_TYPE = "gcp:monitoring/notificationChannel:NotificationChannel"
POLICY_TYPE = "gcp:monitoring/alertPolicy:AlertPolicy"
SECRET_GRANT_TYPE = "gcp:secretmanager/secretIamMember:SecretIamMember"
DASHBOARD_TYPE = "gcp:monitoring/dashboard:Dashboard"

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def test_a_second_up_that_looks_at_the_cloud_changes_nothing(deployed: LocalStack) -> None:
    assert deployed.changes("up", "--refresh") == {}


def test_a_preview_that_looks_at_the_cloud_expects_no_changes(deployed: LocalStack) -> None:
    deployed.on_stack("preview", "--refresh", "--expect-no-changes")


def test_refresh_finds_nothing_new(deployed: LocalStack) -> None:
    assert deployed.changes("refresh") == {}


ONE_SETTING = [
    ("gpujob:timeout", "3600s", [("update", JOB_TYPE)]),
    ("gpujob:cpu", "6", [("update", JOB_TYPE)]),
    # Which attempts are the last ones follows from it.
    ("gpujob:maxRetries", 5, [("update", JOB_TYPE), ("update", POLICY_TYPE)]),
    ("gpujob:retriesLeft", 2, [("update", POLICY_TYPE)]),
    ("gpujob:noProgressMinutes", 90, [("update", POLICY_TYPE)]),
    ("gpujob:atRiskMinutes", 30, [("update", POLICY_TYPE)]),
    (
        "gpujob:notificationEmails",
        ["a@example.com", "b@example.com"],
        [("create", CHANNEL_TYPE)] * 2 + [("update", POLICY_TYPE)] * 5,
    ),
    ("gpujob:notificationEmails", ["b@example.com"], [("delete", CHANNEL_TYPE)] + [("update", POLICY_TYPE)] * 5),
]


@pytest.mark.parametrize(("key", "value", "changed"), ONE_SETTING)
def test_one_changed_setting_changes_exactly_this(
    deployed: LocalStack, key: str, value: object, changed: list[tuple[str, str]]
) -> None:
    deployed.set(key, value)
    assert sorted(deployed.changed_urns("up")) == sorted(changed)
    assert deployed.changes("up", "--refresh") == {}


def test_a_secret_by_version_is_granted_and_given_to_the_job_and_a_version_that_is_not_there_changes_nothing(
    deployed: LocalStack,
) -> None:
    url = f"{deployed.cloud.url}/secretmanager/v1/projects/local-project/secrets"
    secret = {"replication": {"automatic": {}}}
    requests.post(f"{url}?secretId=api-token", json=secret, timeout=30).raise_for_status()
    version = {"payload": {"data": "c2VjcmV0"}}
    requests.post(f"{url}/api-token:addVersion", json=version, timeout=30).raise_for_status()
    pinned = "projects/local-project/secrets/api-token/versions"

    deployed.set("gpujob:secrets", {"API_TOKEN": f"{pinned}/1"})
    assert ("create", SECRET_GRANT_TYPE) in deployed.changed_urns("up")
    assert deployed.changes("up", "--refresh") == {}
    before = deployed.job().json()

    deployed.set("gpujob:secrets", {"API_TOKEN": f"{pinned}/2"})
    said = deployed.on_stack("up", "--yes", "--skip-preview", expect=1)
    assert "secrets/api-token/versions/2 was not found" in said
    assert deployed.job().json() == before

    deployed.set("gpujob:secrets", {})
    deployed.changes("up", "--refresh")
    requests.delete(f"{url}/api-token", timeout=30).raise_for_status()
    assert not [name for name in deployed.inventory() if "secretmanager" in name]


def test_a_dashboard_edited_in_the_console_is_put_right(deployed: LocalStack) -> None:
    parent = f"{deployed.cloud.url}/monitoring/v1/projects/local-project/dashboards"
    (before,) = requests.get(parent, timeout=30).json()["dashboards"]
    edited = {
        **before,
        "displayName": "mine",
        "mosaicLayout": {"columns": 12, "tiles": before["mosaicLayout"]["tiles"][1:]},
    }
    requests.patch(f"{deployed.cloud.url}/monitoring/v1/{before['name']}", json=edited, timeout=30).raise_for_status()
    assert deployed.changed_urns("up", "--refresh")[-1] == ("update", DASHBOARD_TYPE)
    (after,) = requests.get(parent, timeout=30).json()["dashboards"]
    assert {**after, "etag": ""} == {**before, "etag": ""}
    assert deployed.changes("up", "--refresh") == {}


def test_what_observes_can_be_taken_away_and_comes_back(deployed: LocalStack) -> None:
    observing = {"metrics", "alertPolicies", "dashboards", "notificationChannels"}

    def there() -> set[str]:
        return {kind for kind in observing for name in deployed.inventory() if f"/{kind}/" in name}

    assert there() == observing
    deployed.set("gpujob:observability", False)
    deployed.changes("up")
    assert there() == set()
    deployed.set("gpujob:observability", True)
    deployed.changes("up")
    assert there() == observing


def test_a_job_deleted_behind_the_engines_back_is_seen_and_restored(deployed: LocalStack) -> None:
    requests.delete(f"{deployed.cloud.url}/run/v2/{deployed.output('jobId')}", timeout=30).raise_for_status()
    assert deployed.changed_urns("up", "--refresh")[-1] == ("create", JOB_TYPE)
    assert deployed.job().status_code == 200
    assert deployed.changes("up", "--refresh") == {}


def test_a_job_edited_behind_the_engines_back_is_put_right(deployed: LocalStack) -> None:
    job = deployed.job().json()
    job["template"]["template"]["maxRetries"] = 9
    url = f"{deployed.cloud.url}/run/v2/{deployed.output('jobId')}"
    requests.patch(url, json=job, timeout=30).raise_for_status()
    deployed.on_stack("preview", "--refresh", "--expect-no-changes", expect=7)
    assert deployed.changed_urns("up", "--refresh")[-1] == ("update", JOB_TYPE)
    assert deployed.job().json()["template"]["template"]["maxRetries"] != 9


def test_no_tracked_file_changed_by_all_of_this(deployed: LocalStack) -> None:
    def state() -> str:
        return subprocess.run(
            ["git", "status", "--porcelain", "Pulumi*"], cwd=TREE, capture_output=True, text=True, check=True
        ).stdout

    before = state()
    deployed.on_stack("preview")
    assert state() == before


def test_destroy_leaves_nothing(stack: LocalStack) -> None:
    stack.set("gpujob:notificationEmails", ["a@example.com"])
    assert stack.changes("up")["create"] > 10
    assert stack.inventory()
    stack.on_stack("destroy", "--yes", "--skip-preview")
    assert stack.inventory() == []


def test_the_state_is_a_file_in_the_folder_that_was_given(deployed: LocalStack) -> None:
    states = list(Path(deployed.folder, "pulumi-state").rglob("local.json"))
    assert len(states) == 1
