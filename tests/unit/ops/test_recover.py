"""What `gpujob recover` reads in the engine's state: what was under way, and which files a kill cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ops.recover import pending_creates, remove_torn_side_files

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
