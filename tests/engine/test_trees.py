"""Directory trees as checkpoints: they come back as they were, or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import stat
from pathlib import Path

import pytest

from app.checkpoint import manifest as manifests
from app.checkpoint.codec import Unsavable
from app.checkpoint.epochs import Superseded
from app.checkpoint.line import Line
from app.checkpoint.names import Attempt, CheckpointName
from app.checkpoint.resume import NothingLoads
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.store import read
from app.checkpoint.trees import source as tree_source
from app.checkpoint.trees import target as tree_target
from app.checkpoint.trees.source import TreeChanged
from app.checkpoint.trees.table import Directory, File, Link, TreeTable, leads_inside
from app.checkpoint.trees.tree import commit_tree, restore_tree
from app.contract import Refusal
from tests.engine.lines import ORIGIN, Failing, attempt, commit, resume, steps


@pytest.fixture(autouse=True)
def _no_power_cuts_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in conftest.py; one test below asks for it."""
    monkeypatch.setattr(tree_target, "sync_file_system", lambda _path: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "line").mkdir()
    return tmp_path


@pytest.fixture
def line(root: Path) -> Line:
    return attempt(DirectoryStore(root / "line"), 1)


@pytest.fixture
def out(root: Path) -> Path:
    """What a trainer might write."""
    tree = root / "out"
    write(tree, {"checkpoint-10/model.safetensors": b"m" * 3000, "checkpoint-10/optimizer.pt": os.urandom(70_000)})
    write(tree, {"checkpoint-10/trainer_state.json": b"{}", "logs/empty": b"", "run.sh": b"#!/bin/sh\n"})
    (tree / "run.sh").chmod(0o755)
    (tree / "logs/none/deeper").mkdir(parents=True)
    (tree / "last").symlink_to("checkpoint-10")
    (tree / "logs/best").symlink_to("../checkpoint-10/model.safetensors")
    os.utime(tree / "checkpoint-10", ns=(1_600_000_000_123_456_789,) * 2)
    return tree


def write(tree: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)


def contents(tree: Path) -> dict[str, object]:
    """Everything that is to come back."""
    found: dict[str, object] = {}
    for path in sorted(tree.rglob("*")):
        name, status = str(path.relative_to(tree)), path.lstat()
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            content = path.read_bytes() if path.is_file() else None
            found[name] = (stat.S_IMODE(status.st_mode), status.st_mtime_ns, content)
    return found


def objects(line: Line) -> list[str]:
    return [entry.name for folder in ("checkpoints/", "shards/") for entry in line.store.list(folder)]


def test_a_tree_comes_back_as_it_was(line, root, out):
    before = contents(out)
    name = commit_tree(line, 10, out, ORIGIN)
    assert restore_tree(line, root / "again") == name
    assert contents(root / "again") == before
    assert (name.step, steps(line.store)) == (10, [10])


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


# What changes meanwhile


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


# What cannot be committed


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


# The place


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
    from app.checkpoint.trees.target import Unfinished

    living = Unfinished.beside(root / "again")
    restore_tree(line, root / "again")
    assert [path for path in root.iterdir() if "restoring" in path.name] == [living.path]
    living.abandon()


# Damage


def each_object_of(line: Line, name: CheckpointName) -> list[Path]:
    names = [name.manifest, *(entry.name for entry in line.store.list(name.shards))]
    return [line.store.root / each for each in names]


def test_a_flipped_byte_anywhere_means_the_tree_before(line, root, out):
    line.sleep = lambda _s: None
    older = commit_tree(line, 1, out, ORIGIN)
    write(out, {"run.sh": b"second"})
    newer = commit_tree(line, 2, out, ORIGIN)
    trials = 0
    for path in each_object_of(line, newer):
        content = path.read_bytes()
        for at in range(0, len(content), max(1, len(content) // 40)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            assert restore_tree(line, root / "again") == older, f"{path} at {at}"
            shutil.rmtree(root / "again")
            shutil.rmtree(root / "line/quarantine", ignore_errors=True)
            trials += 1
        path.write_bytes(content)
    assert restore_tree(line, root / "again") == newer
    assert trials > 80


def test_a_lost_shard_is_recorded_in_quarantine(line, root, out):
    line.sleep = lambda _s: None
    name = commit_tree(line, 1, out, ORIGIN)
    (line.store.root / name.shard(0, "files")).unlink()
    with pytest.raises(NothingLoads, match="missing"):
        restore_tree(line, root / "again")
    assert [entry.name for entry in line.store.list("quarantine/")] == [name.record]
    assert sorted(path.name for path in root.iterdir()) == ["line", "out"]


FILE, FOLDER = File("a", 0, 0o644, 0, 0, 0), Directory("d", 0o755, 0)
HOSTILE = {
    "up": TreeTable([FILE._replace(path="../a")]),
    "up in the middle": TreeTable([FILE._replace(path="d/../../a")], [FOLDER]),
    "absolute": TreeTable([FILE._replace(path="/etc/a")]),
    "NUL": TreeTable([FILE._replace(path="a\0b")]),
    "empty": TreeTable([FILE._replace(path="")]),
    "itself": TreeTable([FILE._replace(path=".")]),
    "empty part": TreeTable([FILE._replace(path="d//a")], [FOLDER]),
    "a lone surrogate": TreeTable([FILE._replace(path="\ud800")]),
    "twice": TreeTable([FILE, FILE]),
    "twice but for case": TreeTable([FILE, FILE._replace(path="A")]),
    "directory but for case": TreeTable([FILE._replace(path="D")], [FOLDER]),
    "no directory above": TreeTable([FILE._replace(path="d/a")]),
    "through a link": TreeTable([FILE._replace(path="l/a")], [FOLDER], [Link("l", "d")]),
    "absolute link": TreeTable(links=[Link("l", "/etc")]),
    "link out": TreeTable(links=[Link("l", "../x")]),
    "link to nothing": TreeTable(links=[Link("l", "")]),
    "link by another": TreeTable([], [FOLDER], [Link("d/l", "m/../../x"), Link("d/m", "../d")]),
    "set-user-id": TreeTable([FILE._replace(mode=0o4755)]),
    "long ago": TreeTable([FILE._replace(modified_ns=-(2**70))]),
    "bytes of no shard": TreeTable([FILE._replace(size_bytes=4)]),
    "fewer than no bytes": TreeTable([FILE._replace(size_bytes=-4)]),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_manifest_that_would_write_elsewhere_is_damaged_and_nothing_is_written(line, root, out, hostile):
    line.sleep = lambda _s: None
    older = commit_tree(line, 1, out, ORIGIN)
    name = CheckpointName.of(line.attempt, 2)
    head = manifests.Manifest.decode(read(line.store, older.manifest)).head
    table = HOSTILE[hostile]
    changed = {"name": str(name), "step": 2, "shards": (), "files": len(table.files)}
    forged = manifests.Head(**{**vars(head), **changed})
    line.store.publish(name.manifest, manifests.Manifest(forged, table.encode()).encode())
    assert restore_tree(line, root / "a" / "again") == older
    assert [path.name for path in (root / "a").iterdir()] == ["again"]
    assert name.record in [entry.name for entry in line.store.list("quarantine/")]


@pytest.mark.parametrize("field", File._fields)
@pytest.mark.parametrize("value", [None, 1.5, "x", [], True])
def test_a_table_with_a_field_of_another_kind_makes_no_sense(field, value):
    if (field, value) == ("path", "x"):
        return
    table = json.loads(TreeTable([FILE]).encode())
    table["files"][field] = [value]
    with pytest.raises(ValueError, match=f"a {field} is"):
        TreeTable.decode(json.dumps(table).encode(), [])


def test_columns_of_unequal_length_make_no_sense():
    table = json.loads(TreeTable([FILE]).encode())
    table["files"]["mode"].append(0)
    with pytest.raises(ValueError, match="argument"):
        TreeTable.decode(json.dumps(table).encode(), [])


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        *(("l", "a", True), ("l", "a/b", True), ("a/l", "../b", True), ("a/b/l", "../../c", True)),
        *(("l", "../a", False), ("a/l", "../../b", False), ("l", ".", False), ("l", "a/..", False)),
        *(("a/l", "..", False), ("l", "/a", False), ("l", "a//b", False), ("l", "a\0", False)),
    ],
)
def test_a_link_leads_inside_or_is_refused(path, target, inside):
    assert leads_inside(Link(path, target)) is inside


# The line


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


# Kills

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
