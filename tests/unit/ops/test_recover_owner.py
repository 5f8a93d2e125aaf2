"""`gpujob recover` imports what says that this stack made it, and names the owner of what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.ownership import described, owned
from ops.errors import RefusedError
from ops.recover import Recovery
from ops.recover_state import IMPORT_IDS, PendingCreate, pending_creates
from tests.unit.ops.google_stub import Stub

PLACE = {"project": "demo-project", "location": "europe-west4"}
JOBS = "/run/v2/projects/demo-project/locations/europe-west4/jobs"
PREFIX = "projects/demo-project/locations/europe-west4"
EMAIL = "gpu-job-sa@demo-project.iam.gserviceaccount.com"
JOB = "gcp:cloudrunv2/job:Job"


def by_label(stack: str) -> dict[str, Any]:
    return {"labels": owned({"app": "gpujob"}, stack)}


def by_description(stack: str) -> dict[str, Any]:
    return {"description": described(stack)} if stack else {}


@dataclass(frozen=True)
class Fixed:
    """A type whose names are fixed: how its list is asked, and how an object says whose it is."""

    type: str
    named: dict[str, Any]
    """What the creation says of the name."""
    path: str
    items: str
    called: dict[str, Any]
    """What an object in the list is called."""
    marked: Callable[[str], dict[str, Any]]

    def pending(self, stack: str) -> PendingCreate:
        return pending(self.type, {**PLACE, **self.named, **self.marked(stack)})

    def answer(self, google: Stub, *stacks: str) -> None:
        """What is there: one of another name, and this by each of `stacks`."""
        there = [{**self.called, **self.marked(stack)} for stack in stacks]
        google.answer(f"GET {self.path}", {self.items: [{"name": "another"}, *there]})


FIXED = [
    Fixed(JOB, {"name": "j"}, JOBS, "jobs", {"name": f"{PREFIX}/jobs/j"}, by_label),
    Fixed("gcp:storage/bucket:Bucket", {"name": "b"}, "/storage/v1/b", "items", {"name": "b"}, by_label),
    Fixed(
        "gcp:artifactregistry/repository:Repository",
        {"repositoryId": "r"},
        f"/artifactregistry/v1/{PREFIX}/repositories",
        "repositories",
        {"name": f"{PREFIX}/repositories/r"},
        by_label,
    ),
    Fixed(
        "gcp:serviceaccount/account:Account",
        {"accountId": "gpu-job-sa"},
        "/iam/v1/projects/demo-project/serviceAccounts",
        "accounts",
        {"name": f"projects/demo-project/serviceAccounts/{EMAIL}", "email": EMAIL},
        by_description,
    ),
    Fixed(
        "gcp:logging/metric:Metric",
        {"name": "j/steps"},
        "/logging/v2/projects/demo-project/metrics",
        "metrics",
        {"name": "j/steps"},
        by_description,
    ),
]
KINDS = pytest.mark.parametrize("fixed", FIXED, ids=lambda fixed: fixed.type.partition(":")[2])


class Taking(Recovery):
    """Asks the cloud, but gives the engine no command: its state is given."""

    def __init__(self, google: Stub, folder: Path, state: dict[str, Any] | None = None) -> None:
        endpoints = {
            "cloudRunV2": "run/v2",
            "storage": "storage/v1",
            "artifactRegistry": "artifactregistry/v1",
            "iamBeta": "iam/v1",
            "logging": "logging/v2",
            "monitoring": "monitoring",
        }
        config = {"gcp:project": "demo-project", "gcp:region": "europe-west4"}
        for name, path in endpoints.items():
            config[f"gcp:{name}CustomEndpoint"] = f"http://127.0.0.1:{google.port}/{path}/"
        file = folder / "Pulumi.dev.yaml"
        file.write_text(json.dumps({"config": config}))
        self.said: list[str] = []
        super().__init__(folder, "dev", file, self.said.append)
        self.taken: list[str] = []
        self._state = json.dumps(state or {})

    def _take_over(self, create: PendingCreate, import_id: str) -> None:
        self.taken.append(import_id)

    def _pulumi(self, *arguments: str, **_: Any) -> str:
        return {"stack": self._state, "whoami": '{"url": "gs://state"}'}.get(arguments[0], "")


def pending(type_: str, inputs: dict[str, Any]) -> PendingCreate:
    (create,) = pending_creates({"deployment": {"pending_operations": [operation(type_, inputs)]}})
    return create


def operation(type_: str, inputs: dict[str, Any]) -> dict[str, Any]:
    urn = f"urn:pulumi:dev::gpujob::parent${type_}::name"
    resource = {"urn": urn, "type": type_, "inputs": inputs, "parent": "urn:of:parent"}
    return {"type": "creating", "resource": resource}


@KINDS
def test_what_says_that_this_stack_made_it_is_taken_over(google: Stub, tmp_path: Path, fixed: Fixed) -> None:
    fixed.answer(google, "dev")
    recovery, create = Taking(google, tmp_path), fixed.pending("dev")
    assert recovery.take_if_ours(create, str(create.import_id), set()) == []
    assert recovery.taken == [create.import_id]


@KINDS
def test_what_another_stack_made_is_left_alone_and_its_owner_is_named(
    google: Stub, tmp_path: Path, fixed: Fixed
) -> None:
    fixed.answer(google, "prod")
    recovery, create = Taking(google, tmp_path), fixed.pending("dev")
    (why,) = recovery.take_if_ours(create, str(create.import_id), set())
    assert recovery.taken == []
    assert "says that stack prod made it, not dev" in why
    assert fixed.called.get("email", fixed.called["name"]).rpartition("/")[2] in why
    assert f"pulumi import {fixed.type} name {create.import_id} --parent parent=urn:of:parent" in why


@KINDS
@pytest.mark.parametrize(("theirs", "ours"), [("", "dev"), ("dev", ""), ("", "")])
def test_what_does_not_say_whose_it_is_is_left_alone(
    google: Stub, tmp_path: Path, fixed: Fixed, theirs: str, ours: str
) -> None:
    fixed.answer(google, theirs)
    recovery, create = Taking(google, tmp_path), fixed.pending(ours)
    (why,) = recovery.take_if_ours(create, str(create.import_id), set())
    assert recovery.taken == []
    assert "not say" in why


@KINDS
def test_what_is_not_there_was_not_created(google: Stub, tmp_path: Path, fixed: Fixed) -> None:
    fixed.answer(google)
    recovery, create = Taking(google, tmp_path), fixed.pending("dev")
    assert recovery.take_if_ours(create, str(create.import_id), set()) == []
    assert (recovery.taken, recovery.said) == ([], [f"{fixed.type} {create.import_id}: was not created"])


def test_every_kind_that_is_imported_by_its_name_is_here() -> None:
    assert {fixed.type for fixed in FIXED} == set(IMPORT_IDS)


def test_what_cannot_be_asked_is_not_taken(google: Stub, tmp_path: Path) -> None:
    google.refuse(f"GET {JOBS}", 403, "no")
    recovery = Taking(google, tmp_path)
    create = pending(JOB, {**PLACE, "name": "j", **by_label("dev")})
    (why,) = recovery.take_if_ours(create, str(create.import_id), set())
    assert recovery.taken == []
    assert "roles/run.viewer" in why
    assert "will not ask again" in why, "the state's list of what was under way is empty by then"
    assert f"pulumi import {JOB} " in why


def test_one_that_is_refused_does_not_keep_the_others_from_being_taken(google: Stub, tmp_path: Path) -> None:
    google.answer(f"GET {JOBS}", {"jobs": [{"name": f"{PREFIX}/jobs/j", **by_label("prod")}]})
    google.answer("GET /storage/v1/b", {"items": [{"name": "b", **by_label("dev")}]})
    operations = [
        operation(JOB, {**PLACE, "name": "j", **by_label("dev")}),
        operation("gcp:storage/bucket:Bucket", {**PLACE, "name": "b", **by_label("dev")}),
    ]
    recovery = Taking(google, tmp_path, {"deployment": {"pending_operations": operations}})
    with pytest.raises(RefusedError) as refused:
        recovery.run()
    assert recovery.taken == ["b"]
    for words in ("job j says that stack prod made it", "Nothing was changed about them", "gpujob:nameSuffix"):
        assert words in str(refused.value)


BOARD = {"displayName": "GPU job gpu-resilient-job"}


@pytest.mark.parametrize(
    ("jobs", "known", "taken"),
    [
        ([], set(), True),
        (["dev"], set(), True),
        (["prod"], set(), False),
        (["prod"], {f"{PREFIX}/jobs/gpu-resilient-job"}, True),
    ],
    ids=["no job yet", "this stack's", "another stack's", "known to the state under an older name"],
)
def test_a_dashboard_bears_no_mark_and_goes_with_the_job_that_it_shows(
    google: Stub, tmp_path: Path, jobs: list[str], known: set[str], taken: bool
) -> None:
    there = [{"name": f"{PREFIX}/jobs/gpu-resilient-job", **by_label(stack)} for stack in jobs]
    google.answer(f"GET {JOBS}", {"jobs": there})
    name = "projects/demo-project/dashboards/1"
    google.answer("GET /monitoring/v1/projects/demo-project/dashboards", {"dashboards": [{**BOARD, "name": name}]})
    recovery = Taking(google, tmp_path)
    inputs = {"project": "demo-project", "dashboardJson": json.dumps(BOARD)}
    refused = recovery.find(pending("gcp:monitoring/dashboard:Dashboard", inputs), known)
    assert recovery.taken == ([name] if taken else [])
    assert ("stack prod made it, not dev" in "".join(refused)) is not taken
