"""`gpujob checkpoints fork` and `prune`: what they write and delete, and what they never touch."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from app.checkpoint import epochs
from app.checkpoint.manifest import Manifest
from app.checkpoint.names import Attempt
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.trees.tree import commit_tree, restore_tree
from app.trees import TreeLine
from ops.checkpoints import forking
from tests.engine.lines import resume
from tests.unit.ops.checkpoint_lines import (
    ORIGIN,
    all_files,
    commit,
    files_of,
    flip,
    gpujob,
    line_at,
    rows,
    said,
    steps,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job-task-0"


@pytest.fixture
def five(path: Path) -> Path:
    line = line_at(path)
    for step in (10, 20, 30, 40, 50):
        commit(line, step, {"step": step, "w": np.full(500, step)})
    return path


# fork


def test_the_new_line_resumes_from_the_checkpoint_that_was_chosen(five, tmp_path):
    before = all_files(five)
    done = gpujob("fork", five, 30, tmp_path / "new/job-task-0")
    assert done.exit_code == 0, said(done)
    loaded, original = resume(DirectoryStore(tmp_path / "new/job-task-0")), resume(DirectoryStore(five))
    assert loaded is not None
    assert original is not None
    assert (loaded.state["step"], loaded.head.identity) == (30, original.head.identity)
    assert loaded.name.epoch == 1
    assert all_files(five) == before


def test_it_records_where_it_came_from(five, tmp_path):
    gpujob("fork", five, 30, tmp_path / "new")
    (manifest,) = (tmp_path / "new/checkpoints").iterdir()
    head = Manifest.decode(manifest.read_bytes()).head
    source = next(each["name"] for each in rows(five) if each["step"] == 30)
    assert head.environment[forking.FORKED_FROM] == f"{five}/checkpoints/{source}.json"
    assert head.environment["python"] == "3.11"
    assert head.resumed_from == source
    (document,) = (tmp_path / "new/ledger").iterdir()
    record = json.loads(document.read_text())
    assert (record["last_durable_step"], record["resumed_from"], record["reason"]) == (30, source, "handed-off")


def test_without_a_checkpoint_it_takes_the_newest(five, tmp_path):
    gpujob("fork", five, tmp_path / "new")
    assert steps(tmp_path / "new") == [50]


def test_a_tree_is_forked_as_a_tree(path, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/weights").write_bytes(b"7")
    commit_tree(line_at(path), 7, tmp_path / "out", ORIGIN)
    gpujob("fork", path, tmp_path / "new")
    restore_tree(line_at(tmp_path / "new"), tmp_path / "again")
    assert (tmp_path / "again/weights").read_bytes() == b"7"


def test_what_is_there_is_not_touched(five, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new/mine").write_text("mine")
    done = gpujob("fork", five, tmp_path / "new")
    assert (done.exit_code, "not empty (it holds mine)" in said(done)) == (3, True)
    assert all_files(tmp_path / "new") == {"mine": b"mine"}


def test_a_line_does_not_begin_inside_the_one_it_comes_from(five, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(five)
    monkeypatch.chdir(five)
    before = all_files(five)
    for inside in (f"{five}/sub", tmp_path / "link/sub", "sub/sub", f"{five}/../{five.name}/shards/x"):
        done = gpujob("fork", five, inside)
        assert (done.exit_code, "lies in the line" in said(done)) == (3, True)
    assert all_files(five) == before
    assert not (five / "sub").exists()
    assert gpujob("fork", five, f"{five}-2").exit_code == 0


def test_a_damaged_checkpoint_is_not_copied_and_leaves_nothing(five, tmp_path):
    (shard,) = max((five / "shards").iterdir()).iterdir()
    flip(shard)
    done = gpujob("fork", five, 50, tmp_path / "new")
    assert done.exit_code == 1, said(done)
    assert all_files(tmp_path / "new") == {}
    assert gpujob("fork", five, 40, tmp_path / "new").exit_code == 0


@pytest.mark.parametrize("arguments", [[], ["only-one"], ["a", "b", "c", "d"]])
def test_fork_needs_a_line_and_a_destination(arguments):
    assert gpujob("fork", *arguments).exit_code == 2


# prune


def test_the_newest_that_verify_stay(five):
    done = gpujob("prune", five, "--keep", 2)
    assert done.exit_code == 0, said(done)
    assert steps(five) == [40, 50]
    assert sorted(path.name for path in (five / "shards").iterdir()) == sorted(row["name"] for row in rows(five))
    assert "3 of 5 checkpoints, freed" in said(done)
    assert "2 stay" in said(done)


def test_dry_run_says_the_same_and_deletes_nothing(five):
    before = all_files(five)
    dry = said(gpujob("prune", five, "--keep", 3, "--dry-run"))
    assert all_files(five) == before
    wet = said(gpujob("prune", five, "--keep", 3))
    assert dry.replace("would go", "goes").replace("would free", "freed") == wet
    freed = sum(map(len, before.values())) - sum(map(len, all_files(five).values()))
    assert f"freed {freed / 1000:.1f} kB" in wet


def test_every_kth_step_stays(five):
    gpujob("prune", five, "--keep", 2, "--keep-every", 20)
    assert steps(five) == [20, 40, 50]


def test_damaged_ones_do_not_count(five):
    for step in (50, 30):
        (damaged,) = (five / "checkpoints").glob(f"{step:012d}-*")
        flip(damaged, -5)
    gpujob("prune", five, "--keep", 2)
    assert steps(five) == [20, 30, 40, 50]  # what ranks above the last that counts stays, whatever it is


def test_with_fewer_sound_ones_than_are_to_stay_nothing_goes(five):
    for path in (five / "checkpoints").glob("*"):
        if not path.name.startswith("000000000010"):
            flip(path, -5)
    before = all_files(five)
    done = gpujob("prune", five, "--keep", 2)
    assert (done.exit_code, "Only 1 of the 5" in said(done)) == (1, True)
    assert all_files(five) == before


@pytest.mark.parametrize("options", [["--keep", 1], ["--keep", 0], ["--keep", 2, "--keep-every", 0]])
def test_fewer_than_two_are_never_kept(five, options):
    before = all_files(five)
    assert gpujob("prune", five, *options).exit_code == 2
    assert all_files(five) == before


def test_while_an_attempt_seems_active_nothing_goes(five):
    commit(line_at(five, ended=False), 60)
    before = all_files(five)
    done = gpujob("prune", five, "--keep", 2)
    assert (done.exit_code, "seems to work on" in said(done)) == (3, True)
    assert gpujob("prune", five, "--keep", 2, "--dry-run").exit_code == 0
    assert all_files(five) == before


def test_a_script_with_a_tree_that_has_ended_is_not_active(path, tmp_path, monkeypatch):
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # as it was, once the test has ended
    (tmp_path / "out").mkdir()
    with TreeLine.open() as line:
        for step in (1, 2, 3):
            line.commit(step, tmp_path / "out")
        assert gpujob("prune", path, "--keep", 2).exit_code == 3
    done = gpujob("prune", path, "--keep", 2)
    assert (done.exit_code, steps(path)) == (0, [2, 3]), said(done)


def test_an_attempt_that_was_killed_an_hour_ago_is_not_active(five):
    line = line_at(five, ended=False)
    long_ago = time.time() - 3700
    os.utime(five / line.attempt.document, (long_ago, long_ago))
    assert gpujob("prune", five, "--keep", 2).exit_code == 0


def test_an_attempt_that_begins_meanwhile_ends_the_pruning(five, monkeypatch):
    real = epochs.refuse_if_superseded

    def begins(store, own):
        store.publish(Attempt(9).document, b"{}")
        real(store, own)

    monkeypatch.setattr(epochs, "refuse_if_superseded", begins)
    done = gpujob("prune", five, "--keep", 2)
    assert (done.exit_code, "works on this checkpoint line now" in said(done)) == (3, True)
    assert steps(five) == [10, 20, 30, 40, 50]


def test_a_shard_that_a_kept_checkpoint_refers_to_stays_and_goes_with_its_last_user(path):
    line = line_at(path)
    names = [commit(line, step, {"step": step, "w": np.full(500, step)}) for step in (10, 20, 30)]
    refer(path, names[2], names[0])
    assert [row["shared_shards"] for row in rows(path)] == [1, 0, 1]
    gpujob("prune", path, "--keep", 2)
    assert steps(path) == [20, 30]
    assert gpujob("verify", path).exit_code == 0
    assert files_of(path, names[0])["shard"].exists()
    for step in (40, 50):
        commit(line, step, {"step": step, "w": np.full(500, step)})
    gpujob("prune", path, "--keep", 2)
    assert {entry.name[:12] for entry in (path / "shards").iterdir()} == {"000000000040", "000000000050"}


def refer(path: Path, name, other) -> None:
    """Let `name`'s manifest refer to the shard of `other`, whose content is then its own too."""
    from dataclasses import replace

    mine, theirs = (Manifest.decode((path / each.manifest).read_bytes()) for each in (name, other))
    head = replace(mine.head, shards=theirs.head.shards)
    (path / name.manifest).write_bytes(Manifest(head, theirs.table).encode())
