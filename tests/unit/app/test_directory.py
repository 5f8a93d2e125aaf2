"""A directory as a store: what is created, what is refused, and what makes bytes durable on a disk and on a mount."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from app.checkpoint.storage.directory import STAGING, DirectoryStore
from app.checkpoint.storage.medium import Medium, medium_of
from app.checkpoint.storage.store import Written, read


@pytest.fixture(params=list(Medium))
def store(tmp_path: Path, request: pytest.FixtureRequest) -> DirectoryStore:
    return DirectoryStore(tmp_path, request.param)


def chunks(*parts: bytes) -> list[memoryview]:
    return [memoryview(part) for part in parts]


def test_an_object_is_read_back_as_written(store):
    assert store.create("shards/a/000", chunks(b"one", b"", b"two")) == Written(6)
    assert read(store, "shards/a/000") == b"onetwo"


def test_creating_and_publishing_never_overwrite(store):
    store.create("shards/a/000", chunks(b"first"))
    store.publish("checkpoints/a.json", b"first")
    with pytest.raises(FileExistsError):
        store.create("shards/a/000", chunks(b"second"))
    with pytest.raises(FileExistsError):
        store.publish("checkpoints/a.json", b"second")
    assert read(store, "shards/a/000") == read(store, "checkpoints/a.json") == b"first"


def test_replacing_overwrites(store):
    store.replace("latest.json", b"a longer first text")
    store.replace("latest.json", b"second")
    assert read(store, "latest.json") == b"second"


def test_a_listing_holds_names_and_sizes_below_the_prefix_only(store):
    store.create("shards/b/000", chunks(b"12"))
    store.create("shards/a/001", chunks(b"1"))
    store.publish("checkpoints/a.json", b"{}")
    assert [(entry.name, entry.size_bytes) for entry in store.list("shards/")] == [
        ("shards/a/001", 1),
        ("shards/b/000", 2),
    ]
    assert store.list("ledger/") == []


def test_a_vanished_root_is_an_error_not_an_empty_line(store):
    for path in sorted(store.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    store.root.rmdir()
    with pytest.raises(FileNotFoundError):
        store.list("checkpoints/")


def test_the_lines_own_directory_stays_when_its_last_object_is_deleted(store):
    (store.root / "latest.json").write_text("{}")
    store.delete("latest.json")
    assert store.list("checkpoints/") == []


def test_deleting_what_is_gone_is_no_error_and_the_last_shard_takes_its_directory(store):
    store.create("shards/a/000", chunks(b"1"))
    store.delete("shards/a/000")
    store.delete("shards/a/000")
    assert not (store.root / "shards/a").exists()


def test_a_failed_write_leaves_no_open_file_and_raises(store):
    before = len(list(Path("/proc/self/fd").iterdir()))

    def broken():
        yield memoryview(b"some")
        raise OSError(errno.EIO, "no more")

    with pytest.raises(OSError, match="no more"):
        store.create("shards/a/000", broken())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_on_a_disk_shards_and_each_directory_once_are_synced_before_the_link(tmp_path, monkeypatch):
    done: list[str] = []
    fsync, link = os.fsync, os.link

    def noting_fsync(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        done.append(str(path.relative_to(tmp_path.parent)) if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def noting_link(*args: object, **kwargs: object) -> None:
        done.append("link")
        link(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "link", noting_link)
    store = DirectoryStore(tmp_path, Medium.DISK)
    store.create("shards/a/000", chunks(b"1"))
    store.create("shards/a/001", chunks(b"2"))
    store.publish("checkpoints/a.json", b"{}")
    root = tmp_path.name
    at = done.index("link")
    directories = [root, f"{root}/shards", f"{root}/shards/a"]
    assert sorted(done[:at]) == sorted(["file", "file", "file", *directories])
    assert done[at + 1 :] == [f"{root}/checkpoints"]
    assert list((tmp_path / STAGING).iterdir()) == []


def test_a_directory_that_gets_a_name_while_it_is_synced_is_synced_again(tmp_path, monkeypatch):
    store, fsync, synced = DirectoryStore(tmp_path, Medium.DISK), os.fsync, list[str]()

    def noting_fsync(fd: int) -> None:
        fsync(fd)
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        if synced[-1].endswith("shards/a") and not (tmp_path / "shards/a/001").exists():
            store.create("shards/a/001", chunks(b"2"))

    monkeypatch.setattr(os, "fsync", noting_fsync)
    store.create("shards/a/000", chunks(b"1"))
    store.publish("checkpoints/a.json", b"{}")
    synced.clear()
    store.publish("checkpoints/b.json", b"{}")
    assert str(tmp_path / "shards/a") in synced


def test_on_a_mount_nothing_is_linked_or_synced_and_a_failing_close_is_a_failed_write(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "link")
    monkeypatch.delattr(os, "fsync")
    store = DirectoryStore(tmp_path, Medium.MOUNT)
    store.publish("checkpoints/a.json", b"{}")
    close = os.close

    def failing(fd: int) -> None:
        close(fd)
        raise OSError(errno.EIO, "upload failed")

    monkeypatch.setattr(os, "close", failing)
    with pytest.raises(OSError, match="upload failed"):
        store.create("shards/a/000", chunks(b"1"))


def test_a_disk_without_hard_links_publishes_by_exclusive_creation(tmp_path, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refused)
    store = DirectoryStore(tmp_path, Medium.DISK)
    store.publish("checkpoints/a.json", b"{}")
    assert read(store, "checkpoints/a.json") == b"{}"
    with pytest.raises(FileExistsError):
        store.publish("checkpoints/a.json", b"[]")


def test_old_leftovers_of_killed_attempts_are_swept_from_staging(tmp_path):
    store = DirectoryStore(tmp_path, Medium.DISK)
    store.publish("checkpoints/a.json", b"{}")
    old, fresh = tmp_path / STAGING / "old", tmp_path / STAGING / "fresh"
    old.write_text("half")
    fresh.write_text("half")
    os.utime(old, (0, 0))
    store.publish("checkpoints/b.json", b"{}")
    assert [path.name for path in (tmp_path / STAGING).iterdir()] == ["fresh"]


@pytest.mark.parametrize(
    ("place", "write"),
    [
        (STAGING, lambda store: store.publish("checkpoints/a.json", b"{}")),
        ("checkpoints", lambda store: store.publish("checkpoints/a.json", b"{}")),
        ("shards", lambda store: store.create("shards/a/000", chunks(b"1"))),
        ("shards/a", lambda store: store.create("shards/a/000", chunks(b"1"))),
        (STAGING, lambda store: store.replace("latest.json", b"{}")),
        ("checkpoints", lambda store: store.list("checkpoints/")),
    ],
)
@pytest.mark.parametrize("kind", ["file", "loop"])
def test_a_file_in_the_place_of_a_directory_is_told_as_such(tmp_path, place, write, kind):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("") if kind == "file" else path.symlink_to(path)
    with pytest.raises(OSError) as error:  # noqa: PT011 - the number is looked at below
        write(DirectoryStore(tmp_path, Medium.DISK))
    assert error.value.errno in {errno.ENOTDIR, errno.ELOOP}
    assert place in str(error.value.filename)


def test_a_link_to_itself_is_not_listed(store):
    store.publish("checkpoints/a.json", b"{}")
    loop = store.root / "checkpoints/b.json"
    loop.symlink_to(loop)
    assert [entry.name for entry in store.list("checkpoints/")] == ["checkpoints/a.json"]


@pytest.mark.parametrize("operation", ["publish", "replace", "replace over a directory"])
def test_what_a_failed_write_staged_is_removed_and_old_leftovers_with_it(tmp_path, monkeypatch, operation):
    store = DirectoryStore(tmp_path, Medium.DISK)
    if operation != "replace over a directory":
        (tmp_path / STAGING).mkdir()
        (tmp_path / STAGING / "old").write_text("half")
        os.utime(tmp_path / STAGING / "old", (0, 0))
    if operation == "replace over a directory":
        (tmp_path / "latest.json/x").mkdir(parents=True)
    else:

        def full(_fd: int, _data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError):  # noqa: PT011 - any
        (store.publish if operation == "publish" else store.replace)("latest.json", b"{}")
    assert list((tmp_path / STAGING).iterdir()) == []


def test_a_file_that_ends_up_shorter_than_written_is_an_error(store, monkeypatch):
    class Shorter:
        st_size = 3

    monkeypatch.setattr(Path, "stat", lambda _self, **_: Shorter())
    monkeypatch.setattr(Path, "is_dir", lambda _self: True)
    with pytest.raises(OSError, match="holds 3"):
        store.create("whole", chunks(b"12345"))


def test_an_ordinary_directory_is_a_disk(tmp_path):
    assert medium_of(tmp_path) is Medium.DISK


@pytest.mark.parametrize(
    "name", ["plain", "with a blank", "prüfung", "back\\slash", "line\nend", "return\rend", "\u2028", "\udcff"]
)
def test_a_mounted_bucket_is_known_by_its_type_whatever_its_path_is_called(tmp_path, name):
    mounts, point = tmp_path / "mountinfo", tmp_path / name
    told = str(point).replace("\\", "\\134").replace(" ", "\\040").replace("\n", "\\012")
    lines = ["1 0 0:1 / / rw - ext4 /dev/vda rw", f"2 1 0:2 / {told} rw,nosuid shared:1 - fuse.gcsfuse bucket rw", ""]
    mounts.write_text("\n".join(lines), errors="surrogateescape")
    assert medium_of(point / "job-task-0", mounts) is Medium.MOUNT
    assert medium_of(tmp_path, mounts) is Medium.DISK
