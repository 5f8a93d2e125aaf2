"""A tree is restored to a place of its own, and is there as a whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from app.checkpoint.trees import target as tree_target
from app.checkpoint.trees.target import Unfinished
from app.checkpoint.trees.tree import commit_tree, restore_tree
from app.contract import Refusal
from tests.engine.lines import ORIGIN
from tests.engine.trees.files import contents


def test_a_tree_is_not_restored_over_another(line, root, out):
    commit_tree(line, 1, out, ORIGIN)
    before = contents(out)
    with pytest.raises(Refusal, match=rf"{out} is not empty"):
        restore_tree(line, out)
    assert contents(out) == before


def test_an_empty_directory_is_a_place_and_so_is_a_link_to_one(line, root, out):
    name = commit_tree(line, 1, out, ORIGIN)
    (root / "empty").mkdir()
    (root / "link").symlink_to("empty")
    assert restore_tree(line, root / "link") == name
    assert contents(root / "empty") == contents(out)


def test_a_file_in_the_place_is_left_there(line, root, out):
    commit_tree(line, 1, out, ORIGIN)
    (root / "file").write_text("mine")
    with pytest.raises(Refusal, match="not a directory"):
        restore_tree(line, root / "file")
    assert (root / "file").read_text() == "mine"


def test_folders_above_the_place_are_made(line, root, out):
    commit_tree(line, 1, out, ORIGIN)
    restore_tree(line, root / "runs/a/out")
    assert contents(root / "runs/a/out") == contents(out)


def test_trouble_on_the_side_of_the_place_is_not_taken_for_damage(line, root, out, monkeypatch):
    commit_tree(line, 1, out, ORIGIN)

    def full(_path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tree_target, "sync_file_system", full)
    with pytest.raises(Refusal, match="No space left"):
        restore_tree(line, root / "again")
    assert line.store.list("quarantine/") == []
    assert sorted(path.name for path in root.iterdir()) == ["line", "out"]


def test_it_is_durable_before_it_is_put_in_place(line, root, out, monkeypatch):
    commit_tree(line, 1, out, ORIGIN)
    synced = []
    monkeypatch.setattr(tree_target, "sync_file_system", lambda path: synced.append((contents(path), place.exists())))
    place = root / "again"
    restore_tree(line, place)
    assert synced == [(contents(out), False)]
    monkeypatch.undo()
    tree_target.sync_file_system(root)
    with pytest.raises(OSError, match="nowhere"):
        tree_target.sync_file_system(root / "nowhere")


def test_what_killed_restores_left_is_removed_and_what_lives_is_not(line, root, out):
    commit_tree(line, 1, out, ORIGIN)
    (root / ".again.restoring-dead").mkdir()
    living = Unfinished.beside(root / "again")
    restore_tree(line, root / "again")
    assert [path for path in root.iterdir() if "restoring" in path.name] == [living.path]
    living.abandon()
