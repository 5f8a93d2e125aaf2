"""Killed before any file system call, a commit or a restore has happened or has not."""

from __future__ import annotations

import os
import signal

from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.trees import source as tree_source
from app.checkpoint.trees.tree import commit_tree, restore_tree
from tests.engine.lines import ORIGIN, attempt
from tests.engine.trees.files import contents, write

CALLS = ("open", "write", "fsync", "close", "link", "unlink", "replace", "rename", "mkdir", "rmdir", "stat", "scandir")
CALLS += ("utime", "fchmod", "chmod", "symlink", "readv", "pwrite", "listdir", "lstat")


def killed_before_call(number: int, action) -> bool:
    """Whether a fork of this process, doing this, was killed before its `number`-th file system call."""
    pid = os.fork()
    if pid == 0:
        try:
            count_down(number)
            action()
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def count_down(number: int) -> None:
    left = [number]

    def counting(real):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))


def test_killed_before_any_call_of_a_commit_the_older_or_the_newer_tree_is_there(root, monkeypatch):
    monkeypatch.setattr(tree_source, "LARGE_BYTES", 1)  # a shard a file
    old, new = {"a": b"1", "d/b": b"1"}, {"a": b"2", "d/b": b"2", "d/c": b"2"}
    write(root / "old", old)
    write(root / "new", new)
    trees = [contents(root / "old"), contents(root / "new")]
    kills, found = 0, set()
    for number in range(1, 1000):
        where = root / str(number)
        where.mkdir()
        line = attempt(DirectoryStore(where), 1)
        line.sleep = lambda _s: None
        commit_tree(line, 1, root / "old", ORIGIN)
        if not killed_before_call(number, lambda line=line: commit_tree(line, 2, root / "new", ORIGIN)):
            break
        kills += 1
        restore_tree(attempt(line.store, 2), where / "again")
        found.add(trees.index(contents(where / "again")))
    print(f"{kills} kills, 0 mixtures")
    assert kills > 40
    assert found == {0, 1}


def test_killed_before_any_call_of_a_restore_nothing_or_all_of_it_is_there(root, line, out):
    commit_tree(line, 1, out, ORIGIN)
    before, kills, found = contents(out), 0, set()
    for number in range(1, 1000):
        again = root / str(number) / "again"
        if not killed_before_call(number, lambda again=again: restore_tree(line, again)):
            break
        kills += 1
        found.add(again.exists())
        if again.exists():
            assert contents(again) == before
        else:
            restore_tree(line, again)
            assert contents(again) == before
            assert [path.name for path in again.parent.iterdir()] == ["again"]
    print(f"{kills} kills, 0 mixtures")
    assert kills > 40
    assert found == {False, True}
