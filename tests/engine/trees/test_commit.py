"""A tree that changes while it is read, or that no checkpoint can hold, is not committed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from app.checkpoint.codec import Unsavable
from app.checkpoint.line import Line
from app.checkpoint.trees import source as tree_source
from app.checkpoint.trees.looking import TreeChanged
from app.checkpoint.trees.tree import commit_tree, restore_tree
from tests.engine.lines import ORIGIN, Failing
from tests.engine.trees.files import contents, objects


def while_written(line: Line, act) -> Line:
    """The same line; `act` is called when its first shard is about to be written."""
    store = Failing(line.store.root)
    store.fail = lambda operation, _: act() if operation == "create" else None
    return Line(store, line.attempt)


CHANGES = {
    "written in place": lambda out: overwrite(out / "checkpoint-10/optimizer.pt"),
    "grown": lambda out: (out / "run.sh").write_text("#!/bin/sh\nexit 1\n"),
    "cut": lambda out: os.truncate(out / "checkpoint-10/optimizer.pt", 5),
    "replaced by one of the same size": lambda out: replaced(out / "checkpoint-10/trainer_state.json"),
    "removed": lambda out: (out / "run.sh").unlink(),
    "empty, removed": lambda out: (out / "logs/empty").unlink(),
    "new": lambda out: (out / "new").touch(),
    "a pipe now": lambda out: ((out / "run.sh").unlink(), os.mkfifo(out / "run.sh")),
    "a link now": lambda out: ((out / "run.sh").unlink(), (out / "run.sh").symlink_to("logs/empty")),
    "of another mode": lambda out: (out / "run.sh").chmod(0o700),
    "directory renamed": lambda out: (out / "logs").rename(out / "log"),
    "link elsewhere": lambda out: ((out / "last").unlink(), (out / "last").symlink_to("logs")),
}


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"x")


def replaced(path: Path) -> None:
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").replace(path)


@pytest.mark.parametrize("change", CHANGES)
def test_a_tree_that_changes_while_it_is_read_is_not_committed(line, out, change):
    with pytest.raises((TreeChanged, Unsavable)) as refused:
        commit_tree(while_written(line, lambda: CHANGES[change](out)), 10, out, ORIGIN)
    assert str(out) in str(refused.value)
    assert objects(line) == []


def test_a_file_written_a_moment_ago_is_waited_for_so_that_its_next_write_would_show(line, out, monkeypatch):
    monkeypatch.setattr(tree_source, "TICK_S", 60.0)  # longer than this machine may take from here to the commit
    pauses = []
    line.sleep = pauses.append
    (out / "run.sh").write_text("now")
    commit_tree(line, 1, out, ORIGIN)
    assert pauses == [60.0]


def test_after_a_refused_commit_the_step_is_committed_under_another_name(line, root, out):
    with pytest.raises(TreeChanged):
        commit_tree(while_written(line, (out / "new").touch), 10, out, ORIGIN)
    commit_tree(line, 10, out, ORIGIN)
    restore_tree(line, root / "again")
    assert contents(root / "again") == contents(out)


def bind(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path must be short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


UNSAVABLE = {
    "socket": bind,
    "pipe": os.mkfifo,
    "absolute link": lambda path: path.symlink_to("/etc/passwd"),
    "link out of the tree": lambda path: path.symlink_to("../../line"),
    "link down and up": lambda path: path.symlink_to("none/../empty"),
    "RUN.SH": lambda path: (path.write_text(""), path.with_name("run.sh").write_text("")),
}


@pytest.mark.parametrize("kind", UNSAVABLE)
def test_what_no_checkpoint_can_hold_is_refused_with_its_path(line, out, kind):
    UNSAVABLE[kind](out / "logs" / kind)
    with pytest.raises(Unsavable, match=kind):
        commit_tree(line, 1, out, ORIGIN)
    assert objects(line) == []


def test_a_line_is_no_part_of_what_is_committed_to_it(line, root):
    with pytest.raises(Unsavable, match="holds the checkpoint line"):
        commit_tree(line, 1, root, ORIGIN)


def test_a_directory_that_is_not_there_is_the_error_of_its_name(line, root):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        commit_tree(line, 1, root / "nowhere", ORIGIN)
