"""Trees on a checkpoint line: beside sessions, newer attempts and retention."""

from __future__ import annotations

import pytest

from app.checkpoint import manifest as manifests
from app.checkpoint.epochs import Superseded
from app.checkpoint.names import Attempt
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.trees.tree import commit_tree, restore_tree
from app.contract import Refusal
from tests.engine.lines import ORIGIN, attempt, commit, resume, steps
from tests.engine.trees.files import objects


def test_a_session_refuses_a_tree_and_a_tree_a_session(root, line, out):
    commit_tree(line, 1, out, ORIGIN)
    with pytest.raises(Refusal, match="directory tree"):
        resume(line.store)
    (root / "other").mkdir()
    other = attempt(DirectoryStore(root / "other"), 1)
    commit(other, 5)
    with pytest.raises(Refusal, match="state of a session"):
        restore_tree(other, root / "again")
    with pytest.raises(Refusal, match="state of a session"):
        commit_tree(other, 6, out, ORIGIN)
    assert steps(other.store) == [5]
    assert not (root / "again").exists()


def test_only_the_newest_trees_stay_and_what_was_restored_until_two_more_are_there(root, line, out):
    for step in range(1, 4):
        commit_tree(line, step, out, ORIGIN)
    successor = attempt(line.store, 2, keep=2)
    restored = restore_tree(successor, root / "again")
    assert restored is not None
    assert restored.step == 3
    commit_tree(successor, 4, root / "again", ORIGIN)
    assert steps(line.store) == [3, 4]
    commit_tree(successor, 5, root / "again", ORIGIN)
    assert steps(line.store) == [4, 5]
    assert {entry.name.split("/")[1][:12] for entry in line.store.list("shards/")} == {"000000000004", "000000000005"}


def test_a_superseded_attempt_commits_no_tree(line, out):
    line.store.publish(Attempt(2).document, b"{}")
    with pytest.raises(Superseded):
        commit_tree(line, 1, out, ORIGIN)
    assert objects(line) == []


def test_the_head_of_a_session_counts_no_files(line):
    name = commit(line, 1)
    path = line.store.root / name.manifest
    decoded = manifests.Manifest.decode(path.read_bytes())
    assert decoded.head.files is None
