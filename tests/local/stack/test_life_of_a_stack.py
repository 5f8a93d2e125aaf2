"""What a person does with a stack, with the literal commands: nothing drifts, one setting changes one thing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import requests

from tests.local.stack.support import JOB_TYPE, TREE, LocalStack

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.xdist_group("life-of-a-stack")]


def test_a_second_up_that_looks_at_the_cloud_changes_nothing(deployed: LocalStack) -> None:
    assert deployed.changes("up", "--refresh") == {}


def test_a_preview_that_looks_at_the_cloud_expects_no_changes(deployed: LocalStack) -> None:
    deployed.on_stack("preview", "--refresh", "--expect-no-changes")


def test_refresh_finds_nothing_new(deployed: LocalStack) -> None:
    assert deployed.changes("refresh") == {}


@pytest.mark.parametrize(("key", "value"), [("gpujob:maxRetries", 5), ("gpujob:timeout", "3600s"), ("gpujob:cpu", "6")])
def test_one_changed_setting_updates_exactly_the_job(deployed: LocalStack, key: str, value: str) -> None:
    deployed.set(key, value)
    assert deployed.changed_urns("up") == [("update", JOB_TYPE)]
    assert deployed.changes("up", "--refresh") == {}


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
    assert stack.changes("up")["create"] > 10
    assert stack.inventory()
    stack.on_stack("destroy", "--yes", "--skip-preview")
    assert stack.inventory() == []


def test_the_state_is_a_file_in_the_folder_that_was_given(deployed: LocalStack) -> None:
    states = list(Path(deployed.folder, "pulumi-state").rglob("local.json"))
    assert len(states) == 1
