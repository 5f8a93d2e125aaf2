"""What `gpujob recover` reads in the engine's state: what was under way, and which files a kill cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ops.recover import Recovery
from ops.recover_state import PendingCreate, pending_creates, remove_torn_side_files
from tests.unit.ops.google_stub import Stub

PROJECT = {"project": "p", "location": "europe-west4"}


def state(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"deployment": {"resources": [], "pending_operations": list(operations)}}


def operation(type_: str, inputs: dict[str, Any], kind: str = "creating") -> dict[str, Any]:
    urn = f"urn:pulumi:local::gpujob::parent${type_}::name"
    return {"type": kind, "resource": {"urn": urn, "type": type_, "inputs": inputs, "parent": "urn:of:parent"}}


@pytest.mark.parametrize(
    ("type_", "inputs", "import_id"),
    [
        (
            "gcp:serviceaccount/account:Account",
            {"project": "p", "accountId": "gpu-job-sa"},
            "projects/p/serviceAccounts/gpu-job-sa@p.iam.gserviceaccount.com",
        ),
        ("gcp:storage/bucket:Bucket", {"name": "gpu-checkpoints-p"}, "gpu-checkpoints-p"),
        (
            "gcp:artifactregistry/repository:Repository",
            {**PROJECT, "repositoryId": "gpujob"},
            "projects/p/locations/europe-west4/repositories/gpujob",
        ),
        ("gcp:cloudrunv2/job:Job", {**PROJECT, "name": "j"}, "projects/p/locations/europe-west4/jobs/j"),
        ("gcp:logging/metric:Metric", {"project": "p", "name": "j/steps"}, "j/steps"),
        ("gcp:storage/bucketIAMMember:BucketIAMMember", {"bucket": "b"}, None),
        ("pulumi-python:dynamic/gpujob:BuiltImage", {}, None),
    ],
)
def test_a_pending_creation_of_a_fixed_name_says_under_which_id_it_is_imported(
    type_: str, inputs: dict[str, Any], import_id: str | None
) -> None:
    (create,) = pending_creates(state(operation(type_, inputs)))
    assert create.import_id == import_id
    assert (create.type, create.name, create.parent) == (type_, "name", "urn:of:parent")


def test_what_google_names_is_kept_with_what_it_says() -> None:
    (create,) = pending_creates(state(operation("gcp:monitoring/alertPolicy:AlertPolicy", {"displayName": "an alert"})))
    assert (create.import_id, create.inputs) == (None, {"displayName": "an alert"})


def test_a_creation_whose_inputs_were_left_out_is_made_again() -> None:
    without = operation("gcp:storage/bucket:Bucket", {"name": "b"})
    del without["resource"]["inputs"]
    (create,) = pending_creates(state(without))
    assert (create.import_id, create.inputs) == (None, {})


def test_operations_other_than_creations_are_left_to_the_engine() -> None:
    assert pending_creates(state(operation("gcp:storage/bucket:Bucket", {"name": "b"}, kind="deleting"))) == []


def test_a_state_without_pending_operations_has_nothing_to_recover() -> None:
    assert pending_creates({"deployment": {"resources": []}}) == []


@pytest.mark.parametrize("torn", ["", "{", '{"user.cache_control":""'])
def test_side_files_that_were_cut_off_are_removed_and_whole_ones_kept(tmp_path: Path, torn: str) -> None:
    folder = tmp_path / "stacks" / "gpujob"
    folder.mkdir(parents=True)
    (folder / "local.json").write_text("{}")
    (folder / "local.json.attrs").write_text(torn)
    (folder / "local.json.bak.attrs").write_text(json.dumps({"user.content_type": "text/plain"}))
    assert remove_torn_side_files(tmp_path) == [folder / "local.json.attrs"]
    assert sorted(entry.name for entry in folder.iterdir()) == ["local.json", "local.json.bak.attrs"]


class Taking(Recovery):
    """Asks the cloud, but gives the engine no command."""

    def __init__(self, stack_file: Path, said: list[str]) -> None:
        super().__init__(stack_file.parent, "dev", stack_file, said.append)
        self.taken: list[str] = []

    def _take_over(self, create: PendingCreate, import_id: str) -> None:
        self.taken.append(import_id)


def board(number: int, made: str) -> dict[str, Any]:
    name = f"projects/demo-project/alertPolicies/{number}"
    return {"name": name, "displayName": "an alert", "creationRecord": {"mutateTime": made}}


def pending_alert() -> PendingCreate:
    inputs = {"project": "demo-project", "displayName": "an alert"}
    (create,) = pending_creates(state(operation("gcp:monitoring/alertPolicy:AlertPolicy", inputs)))
    return create


@pytest.fixture
def stack_file(google: Stub, tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.dev.yaml"
    endpoint = f"http://127.0.0.1:{google.port}/monitoring/"
    run = f"http://127.0.0.1:{google.port}/run/v2/"
    place = {"gcp:project": "demo-project", "gcp:region": "europe-west4"}
    endpoints = {"gcp:monitoringCustomEndpoint": endpoint, "gcp:cloudRunV2CustomEndpoint": run}
    file.write_text(json.dumps({"config": {**place, **endpoints}}))
    google.answer("GET /run/v2/projects/demo-project/locations/europe-west4/jobs", {"jobs": []})
    return file


def found(google: Stub, stack_file: Path, *there: dict[str, Any], known: set[str]) -> tuple[list[str], list[str]]:
    google.answer("GET /monitoring/v3/projects/demo-project/alertPolicies", {"alertPolicies": list(there)})
    said: list[str] = []
    recovery = Taking(stack_file, said)
    recovery.find(pending_alert(), known)
    return recovery.taken, said


def test_of_several_that_say_the_same_the_newest_is_taken_and_the_others_are_named(
    google: Stub, stack_file: Path
) -> None:
    there = (board(1, "2026-11-29T00:00:00Z"), board(3, "2026-11-30T00:00:00Z"), board(2, "2026-11-30T00:00:01Z"))
    taken, said = found(google, stack_file, *there, known={"projects/demo-project/alertPolicies/1"})
    assert taken == ["projects/demo-project/alertPolicies/2"]
    assert len(said) == 1
    assert "gcloud monitoring policies delete projects/demo-project/alertPolicies/3" in said[0]


def test_one_that_was_taken_is_not_taken_for_another_creation(google: Stub, stack_file: Path) -> None:
    known: set[str] = set()
    assert found(google, stack_file, board(1, "2026-11-30T00:00:00Z"), known=known)[0]
    taken, said = found(google, stack_file, board(1, "2026-11-30T00:00:00Z"), known=known)
    assert taken == []
    assert said == ["gcp:monitoring/alertPolicy:AlertPolicy an alert: was not created"]


def test_where_the_cloud_cannot_be_asked_it_says_what_to_look_for(google: Stub, stack_file: Path) -> None:
    google.refuse("GET /monitoring/v3/projects/demo-project/alertPolicies", 403, "no")
    said: list[str] = []
    Taking(stack_file, said).find(pending_alert(), set())
    assert "was perhaps created, and could not be looked for" in said[0]
    assert "roles/monitoring.viewer" in said[0]
