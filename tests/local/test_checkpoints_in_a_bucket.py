"""`gpujob checkpoints`, and directory trees, on lines in a bucket of the local cloud, through Google's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
import torch
from safetensors.torch import load_file

from app.checkpoint import codec
from app.checkpoint.line import Line
from app.checkpoint.storage.opening import open_root
from app.checkpoint.trees.tree import commit_tree, restore_tree
from app.contract import Task
from app.ledger import Ledger
from app.place import BucketPath
from localcloud.testing import running_cloud
from ops.checkpoints.billing import Billed, billed
from ops.stack import StackOutputs
from tests.engine.buckets import new_bucket
from tests.unit.ops.checkpoint_lines import ORIGIN, gpujob, said

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("buckets")]


@pytest.fixture(scope="module")
def cloud_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cloud(tmp_path_factory.mktemp("cloud") / "state") as cloud:
        yield cloud.url


@pytest.fixture
def bucket(cloud_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud_url)
    return new_bucket(cloud_url)


def line_in(bucket: str, name: str = "job-task-0") -> Line:
    store = open_root(f"gs://{bucket}/{name}")
    ledger = Ledger.open(store, Task(BucketPath(bucket)))
    ledger.end(0, "finished", 0)  # type: ignore[arg-type]
    return Line(store, ledger.attempt, 10)


def commit(line: Line, step: int) -> None:
    line.commit(step, codec.encode({"step": step, "model": {"w": torch.full((500,), step)}}), ORIGIN)


def test_a_line_is_listed_verified_exported_forked_and_pruned(bucket, tmp_path):
    line = line_in(bucket)
    for step in (10, 20, 30):
        commit(line, step)
    url = f"gs://{bucket}/job-task-0"
    listed = json.loads(gpujob("list", url, "--json", "--verify").stdout)
    assert [row["state"] for row in listed["checkpoints"]] == ["verified"] * 3
    assert gpujob("verify", f"gs://{bucket}").exit_code == 0
    assert gpujob("export", url, 20, "--out", tmp_path / "w").exit_code == 0
    assert torch.equal(load_file(tmp_path / "w")["w"], torch.full((500,), 20))
    assert gpujob("fork", url, 20, f"gs://{bucket}/fork/job-task-0").exit_code == 0
    assert gpujob("fork", url, 20, tmp_path / "here").exit_code == 0
    forked = json.loads(gpujob("list", f"gs://{bucket}/fork", "--json").stdout)
    assert [row["step"] for row in forked["checkpoints"]] == [20]
    assert gpujob("prune", url, "--keep", 2).exit_code == 0
    assert [row["step"] for row in json.loads(gpujob("list", url, "--json").stdout)["checkpoints"]] == [30, 20]


def test_a_stack_of_the_local_cloud_leads_to_its_bucket(bucket, cloud_url, monkeypatch):
    for index in (0, 1):
        commit(line_in(bucket, f"job-task-{index}"), 10 + index)
    endpoints = {"storage": f"{cloud_url}/storage/v1/"}
    outputs = StackOutputs("p", "r", "job", "id", f"gs://{bucket}/job-task-0", endpoints)
    monkeypatch.setattr("ops.stack.read_outputs", lambda _stack: outputs)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    assert "job-task-0 job-task-1" in said(gpujob("list"))
    assert "000000000011" in said(gpujob("verify", "job-task-1", "-s", "local"))


def test_what_is_not_there_is_told_from_what_cannot_be_reached(bucket, monkeypatch):
    done = gpujob("list", f"gs://{bucket}/nothing")
    assert (done.exit_code, "it is empty" in said(done)) == (3, True)
    done = gpujob("list", "gs://no-such-bucket/line")
    assert (done.exit_code, "no-such-bucket" in said(done)) == (3, True)


def test_what_soft_delete_bills_is_said(bucket, cloud_url):
    commit(line_in(bucket), 10)
    assert "Soft delete keeps what is pruned for 7 days: 0 bytes deleted" in said(
        gpujob("list", f"gs://{bucket}/job-task-0")
    )
    policy = {"softDeletePolicy": {"retentionDurationSeconds": "0"}}
    httpx.patch(f"{cloud_url}/storage/v1/b/{bucket}", json=policy, trust_env=False).raise_for_status()
    assert "Soft delete is off" in said(gpujob("list", f"gs://{bucket}/job-task-0"))
    assert billed(f"gs://{bucket}/job-task-0") == Billed(0, 0)


def test_a_tree_comes_back_from_a_bucket(bucket, tmp_path):
    (tmp_path / "out/checkpoint-10").mkdir(parents=True)
    (tmp_path / "out/checkpoint-10/model.safetensors").write_bytes(bytes(range(256)) * 20_000)
    (tmp_path / "out/checkpoint-10/empty").touch()
    line = line_in(bucket)
    name = commit_tree(line, 10, tmp_path / "out", ORIGIN)
    assert restore_tree(line, tmp_path / "again") == name
    again = tmp_path / "again/checkpoint-10"
    assert (again / "model.safetensors").read_bytes() == bytes(range(256)) * 20_000
    assert (again / "empty").read_bytes() == b""
    assert gpujob("verify", f"gs://{bucket}/job-task-0").exit_code == 0
