"""Directory trees as checkpoints: they come back as they were."""

from __future__ import annotations

import os

import pytest

from app.checkpoint.resume import NothingLoads
from app.checkpoint.storage.store import read
from app.checkpoint.trees import source as tree_source
from app.checkpoint.trees.tree import commit_tree, restore_tree
from tests.engine.lines import ORIGIN, steps
from tests.engine.trees.files import contents, write
from tests.golden import second_reader


def test_a_tree_comes_back_as_it_was(line, root, out):
    before = contents(out)
    name = commit_tree(line, 10, out, ORIGIN)
    assert restore_tree(line, root / "again") == name
    assert contents(root / "again") == before
    assert (name.step, steps(line.store)) == (10, [10])


def test_a_reader_made_from_the_page_alone_finds_the_tree_as_it_was(line, root, out, monkeypatch):
    monkeypatch.setattr(tree_source, "LARGE_BYTES", 1000)
    write(out, {os.fsdecode(b"caf\xe9"): b"1", "logs/a": b"a" * 300})
    commit_tree(line, 10, out, ORIGIN)
    found = second_reader.newest(root / "line")
    assert found is not None
    assert second_reader.tree(root / "line", found) == contents(out)


def test_small_files_share_an_object_and_a_large_one_is_an_object_of_its_own(line, root, monkeypatch):
    monkeypatch.setattr(tree_source, "LARGE_BYTES", 1000)
    monkeypatch.setattr(tree_source, "SHARD_BYTES", 600)
    sizes = {"a": 300, "b": 5000, "c": 200, "d": 200, "e": 0, "f": 1000}
    write(root / "out", {name: os.urandom(size) for name, size in sizes.items()})
    name = commit_tree(line, 1, root / "out", ORIGIN)
    shards = [read(line.store, entry.name) for entry in line.store.list(name.shards)]
    files = {path.name: path.read_bytes() for path in (root / "out").iterdir()}
    assert shards == [files["a"] + files["c"], files["b"], files["d"], files["f"]]
    restore_tree(line, root / "again")
    assert contents(root / "again") == contents(root / "out")


def test_files_larger_than_a_block_and_ends_within_one_come_back(line, root, monkeypatch):
    monkeypatch.setattr(tree_source, "BLOCK_BYTES", 64)
    write(root / "out", {f"{size}": os.urandom(size) for size in (1, 63, 64, 65, 128, 1000)})
    commit_tree(line, 1, root / "out", ORIGIN)
    restore_tree(line, root / "again")
    assert contents(root / "again") == contents(root / "out")


@pytest.mark.parametrize("files", [{}, {"only/empty": b""}], ids=["no file", "no byte"])
def test_a_tree_without_a_byte_comes_back(line, root, files):
    (root / "out/a/b").mkdir(parents=True)
    write(root / "out", files)
    name = commit_tree(line, 1, root / "out", ORIGIN)
    assert line.store.list(name.shards) == []
    restore_tree(line, root / "again")
    assert contents(root / "again") == contents(root / "out")


def test_names_that_are_no_text_come_back(line, root):
    name = os.fsdecode(b"caf\xe9 \n \xf0\x9f\x92\xbe")
    write(root / "out", {name: b"1"})
    commit_tree(line, 1, root / "out", ORIGIN)
    restore_tree(line, root / "again")
    assert [path.name for path in (root / "again").iterdir()] == [name]


def test_a_tree_of_directories_that_may_not_be_written_comes_back(line, root, out):
    (out / "logs/none").chmod(0o555)
    before = contents(out)
    commit_tree(line, 1, out, ORIGIN)
    restore_tree(line, root / "again")
    assert contents(root / "again") == before


def test_on_a_line_without_any_checkpoint_there_is_nothing_to_restore(line, root):
    assert restore_tree(line, root / "again") is None
    assert not (root / "again").exists()


def test_a_line_that_lost_its_checkpoints_is_not_taken_for_a_new_one(line, root):
    with pytest.raises(NothingLoads):
        restore_tree(line, root / "again", ever_committed=True)
