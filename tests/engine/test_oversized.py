"""A document larger than any that is written is never taken into memory: its size is asked first."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest

from app import ledger, startup
from app.checkpoint import quarantine
from app.checkpoint.line import Line, finished
from app.checkpoint.manifest import Damaged
from app.checkpoint.names import CHECKPOINTS, DONE, LATEST, Attempt, checkpoints_among
from app.checkpoint.reader import read_manifest
from app.checkpoint.storage import store as storage
from app.checkpoint.storage.cloud_reading import Ranges
from app.checkpoint.storage.directory import DirectoryStore
from app.contract import Task
from app.trees import TreeLine
from tests.engine.lines import attempt, commit, resume
from tests.engine.memory_store import MemoryStore

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

HUGE_BYTES = 2**43
"""No machine has so much memory; a sparse file of it takes no room."""


def blow_up(path: Path, size_bytes: int = HUGE_BYTES) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.truncate(path, size_bytes)


def two_commits(store: DirectoryStore) -> tuple[Line, Path]:
    """The line, and the newest manifest's place."""
    line = attempt(store, 1)
    commit(line, 10)
    return line, store.root / commit(line, 20).manifest


@pytest.mark.parametrize("size_bytes", [HUGE_BYTES, storage.MANIFEST_BYTES + 1])
def test_a_manifest_that_grew_without_end_is_damaged_and_the_one_before_is_used(
    store: DirectoryStore, size_bytes: int
) -> None:
    _, newest = two_commits(store)
    blow_up(newest, size_bytes)
    loaded = resume(store)
    assert loaded is not None
    assert loaded.name.step == 10
    (name,) = quarantine.recorded(store)
    assert str(size_bytes) in quarantine.reason(store, name).replace(",", "")


def test_a_sparse_file_in_a_manifests_place_is_damaged_and_the_one_before_is_used(store: DirectoryStore) -> None:
    _, newest = two_commits(store)
    newest.unlink()
    blow_up(newest)
    loaded = resume(store)
    assert loaded is not None
    assert loaded.name.step == 10


def test_pruning_goes_past_a_manifest_without_end(store: DirectoryStore) -> None:
    line, newest = two_commits(store)
    blow_up(newest)
    for step in (30, 40, 50):
        commit(line, step)
    loaded = resume(store)
    assert loaded is not None
    assert loaded.name.step == 50


@pytest.mark.parametrize("what", ["ledger", DONE, "verdict.json", LATEST, "quarantine"])
def test_another_document_without_end_counts_as_torn_and_the_log_says_so(
    tmp_path: Path, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    task = Task(tmp_path, execution="run-1")
    store = startup.open_store(task)
    assert isinstance(store, DirectoryStore)
    line, newest = two_commits(store)
    first = Attempt(1, line.attempt.nonce)
    if what == "quarantine":
        blow_up(store.root / "quarantine" / newest.name)
    else:
        blow_up(store.root / (first.document if what == "ledger" else what))
    assert startup.finished(task, store, 20) is None
    start = startup.begin(task, store)
    loaded = resume(store, ever_committed=start.ever_committed)
    assert loaded is not None
    assert loaded.name.step == (10 if what == "quarantine" else 20)
    if what == "quarantine":
        (name,) = quarantine.recorded(store)
        assert "torn" in quarantine.reason(store, name)
    elif what == "ledger":
        assert ledger.read_all(store) == [start.ledger.record]
    if what != LATEST:  # only whether it is there is asked
        told = capfd.readouterr()
        assert f"{HUGE_BYTES:,} bytes" in told.out + told.err


def test_a_line_of_trees_survives_a_manifest_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path / "line"))
    (tmp_path / "line").mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    with TreeLine.open() as line:
        for step in (1, 2):
            (tree / "weights").write_text(str(step))
            newest = line.commit(step, tree)
    blow_up(tmp_path / "line/job-task-0" / newest.manifest)
    with TreeLine.open() as line:
        line.line.sleep = lambda _s: None
        assert line.restore(tmp_path / "back") == 1
        assert line.commit(3, tree) is not None


class Bucket(MemoryStore):
    """Its objects come by ranges, as those of Cloud Storage do; those in `endless` are zeros without an end."""

    def __init__(self) -> None:
        super().__init__()
        self.endless = set[str]()
        self.fetched_bytes = 0

    def open(self, name: str) -> BinaryIO:
        size = HUGE_BYTES if name in self.endless else len(self.objects[name])

        def fetch(begin: int, end: int) -> bytes:
            self.fetched_bytes += end - begin
            return bytes(end - begin) if name in self.endless else self.objects[name][begin:end]

        def no_threads() -> Executor:
            raise AssertionError("a small object needs none")

        return cast("BinaryIO", Ranges(name, size, fetch, no_threads))


def test_in_a_bucket_nothing_of_a_document_without_end_is_fetched() -> None:
    store = Bucket()
    store.publish("checkpoints/000000000010-e0001-aaaaaa.json", b"{}")
    store.publish(DONE, json.dumps({"step": 1, "identity": {}}).encode())
    assert finished(store) is not None
    store.fetched_bytes = 0
    store.endless = set(store.objects)
    assert finished(store) is None
    (name,) = checkpoints_among(store.list(CHECKPOINTS))
    with pytest.raises(Damaged, match=f"{HUGE_BYTES:,} bytes"):
        read_manifest(store, name)
    assert store.fetched_bytes == 0
