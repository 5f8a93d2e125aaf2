"""Every store keeps every promise of the Protocol: a disk, a directory as on a mount, and Cloud Storage."""

from __future__ import annotations

import errno
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import crc32c
import pytest

from app.checkpoint.storage.cloud_reading import PIECE_BYTES
from app.checkpoint.storage.cloud_storage import PART_BYTES, CloudStorageStore
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.medium import Medium
from app.checkpoint.storage.store import STAGED, read
from localcloud.testing import running_cloud
from tests.engine.buckets import emulator, new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.checkpoint.storage.store import Store

MIB = 2**20
SERVERS = {"emulator": "emulator_url", "local cloud": "front_door_url"}
DIRECTORIES = {"disk": Medium.DISK, "mount": Medium.MOUNT}
COMPLETE = ["disk", "mount", "local cloud"]
"""The emulator by itself has no objects.move, and forgets the preconditions of uploads in parts."""

pytestmark = pytest.mark.xdist_group("buckets")


@pytest.fixture(scope="module")
def emulator_url() -> Iterator[str]:
    with emulator() as url:
        yield url


@pytest.fixture(scope="module")
def front_door_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cloud(tmp_path_factory.mktemp("cloud") / "state") as cloud:
        yield cloud.url


def made(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Store]:
    """Gives a store for each line's name, all in one directory or bucket."""
    if kind in DIRECTORIES:

        def in_directory(line: str) -> Store:
            (tmp_path / line).mkdir(parents=True)
            return DirectoryStore(tmp_path / line, DIRECTORIES[kind])

        return in_directory
    url = request.getfixturevalue(SERVERS[kind])
    request.getfixturevalue("monkeypatch").setenv("STORAGE_EMULATOR_HOST", url)
    bucket = new_bucket(url)
    return lambda line: CloudStorageStore(bucket, line)


@pytest.fixture(params=[*DIRECTORIES, *SERVERS])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Store]:
    return made(request.param, tmp_path, request)


@pytest.fixture
def store(stores: Callable[[str], Store]) -> Store:
    return stores("runs/job-task-0")


@pytest.fixture(params=COMPLETE)
def complete(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return made(request.param, tmp_path, request)("job-task-0")


def chunks(content: bytes, size: int = 4 * MIB) -> Iterator[memoryview]:
    for begin in range(0, len(content), size):
        yield memoryview(content)[begin : begin + size]


def names(store: Store, prefix: str) -> list[str]:
    return [entry.name for entry in store.list(prefix)]


@pytest.mark.parametrize(
    "size",
    [0, 1, PIECE_BYTES, PIECE_BYTES + 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 32 * MIB + 12345],
)
def test_an_object_of_any_size_is_read_back_as_written(store, size):
    content = random.Random(size).randbytes(size)
    written = store.create("shards/a/000.safetensors", chunks(content))
    assert written.size_bytes == size
    assert written.crc32c in (None, f"{crc32c.crc32c(content):08x}")
    assert read(store, "shards/a/000.safetensors") == content
    assert [entry.size_bytes for entry in store.list("shards/")] == [size]


def test_the_memory_of_a_chunk_may_be_used_again_for_the_next(store):
    block = bytearray(MIB)

    def reused() -> Iterator[memoryview]:
        for value in range(40):
            block[:] = bytes([value]) * MIB
            yield memoryview(block)
        yield memoryview(b"")

    store.create("shards/a", reused())
    assert read(store, "shards/a") == b"".join(bytes([value]) * MIB for value in range(40))


def test_a_file_fills_the_buffer_it_is_given_and_can_be_read_from_any_place(store):
    content = random.Random(1).randbytes(3 * PIECE_BYTES + 77)
    store.create("shards/a", chunks(content))
    with store.open("shards/a") as file:
        assert file.seek(0, 2) == len(content)
        assert file.read(1) == b""
        assert file.seek(PIECE_BYTES - 3) == PIECE_BYTES - 3
        assert file.read(10) == content[PIECE_BYTES - 3 : PIECE_BYTES + 7]
        assert file.tell() == PIECE_BYTES + 7
        file.seek(0)
        buffer = memoryview(bytearray(len(content) + 10))
        filled = 0
        while count := file.readinto(buffer[filled : filled + 16 * MIB]):
            filled += count
        assert (filled, bytes(buffer[:filled]) == content) == (len(content), True)
        file.seek(5)
        assert file.read() == content[5:]
    with pytest.raises(ValueError, match="closed"):
        file.read(1)


def test_creating_and_publishing_never_overwrite(store):
    store.create("shards/a", chunks(b"first"))
    store.publish("ledger/b", b"first")
    for again in (
        lambda: store.create("shards/a", chunks(b"second")),
        lambda: store.publish("shards/a", b"second"),
        lambda: store.publish("ledger/b", b"first"),
        lambda: store.create("ledger/b", chunks(b"")),
    ):
        with pytest.raises(FileExistsError) as refused:
            again()
        assert refused.value.errno == errno.EEXIST
    assert (read(store, "shards/a"), read(store, "ledger/b")) == (b"first", b"first")


def test_a_large_object_is_not_overwritten_either(complete):
    complete.create("shards/a", chunks(b"first"))
    with pytest.raises(FileExistsError):
        complete.create("shards/a", chunks(bytes(PART_BYTES + 5)))
    assert read(complete, "shards/a") == b"first"


@pytest.mark.parametrize("size", [3, PART_BYTES + 3])
def test_of_several_that_create_one_object_at_once_exactly_one_does(complete, size):
    ready = threading.Barrier(4)

    def create(value: int) -> bool:
        content = bytes([value]) * size
        ready.wait()
        try:
            complete.create("shards/a", chunks(content))
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(create, range(4)))
    assert won.count(True) == 1
    assert read(complete, "shards/a") == bytes([won.index(True)]) * size


def test_of_several_that_commit_one_object_at_once_exactly_one_does(complete):
    ready = threading.Barrier(4)

    def publish(value: int) -> bool:
        ready.wait()
        try:
            complete.publish("checkpoints/a.json", b"the same", lambda: None)
        except FileExistsError:
            return False
        return True

    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(publish, range(4))).count(True) == 1
        assert names(complete, STAGED) == []
        complete.delete("checkpoints/a.json")


def test_replacing_makes_and_overwrites_and_the_next_open_is_a_fresh_read(store):
    store.replace("latest.json", b"one")
    assert read(store, "latest.json") == b"one"
    store.replace("latest.json", b"")
    assert read(store, "latest.json") == b""


def test_deleting_what_is_gone_is_no_error(store):
    store.create("shards/a/0", chunks(b"1"))
    store.delete("shards/a/0")
    store.delete("shards/a/0")
    store.delete("shards/never/was")
    assert store.list("shards/") == []


@pytest.mark.parametrize("name", ["latest.json", "checkpoints/none.json", "no/such/folder/at/all"])
def test_an_object_that_is_not_there_is_told_as_such(store, name):
    with pytest.raises(FileNotFoundError) as missing, store.open(name) as file:
        file.read()
    assert missing.value.errno == errno.ENOENT
    assert str(missing.value.filename).endswith(name)


def test_a_listing_is_in_order_and_ends_at_the_prefix_and_at_the_line(stores):
    store, neighbour = stores("runs/job-task-1"), stores("runs/job-task-10")
    for name in ("a/2", "a/10", "a/b/1", "ab/1", "a.json"):
        store.create(name, chunks(b"12"))
    neighbour.create("a/3", chunks(b"1"))
    before = time.time()
    assert names(store, "a/") == ["a/10", "a/2", "a/b/1"]
    assert names(store, "ab/") == ["ab/1"]
    assert names(neighbour, "a/") == ["a/3"]
    assert store.list("b/") == []
    assert all(abs(entry.modified_s - before) < 600 and entry.size_bytes == 2 for entry in store.list("a/"))


@pytest.mark.parametrize("stores", ["disk", "emulator"], indirect=True)
def test_many_objects_are_listed_over_several_pages(store):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.create(f"shards/{number:04d}", []), range(1100)))
    assert names(store, "shards/") == [f"shards/{number:04d}" for number in range(1100)]


def test_a_listing_bears_that_objects_vanish_meanwhile(store):
    for number in range(60):
        store.create(f"shards/{number:02d}/0", [])
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(lambda: [store.delete(f"shards/{number:02d}/0") for number in range(60)])
        sizes = [len(store.list("shards/"))]
        while not deleting.done():
            sizes.append(len(store.list("shards/")))
        deleting.result()
    assert sizes == sorted(sizes, reverse=True)
    assert store.list("shards/") == []


@pytest.mark.parametrize(
    "name", ["shards/ä ö/日本.bin", "shards/a+b%20c#d?e&f=g", "shards/..a/.b", "shards/'\"\\;*[x]"]
)
def test_a_name_may_hold_odd_characters(store, name):
    store.create(name, chunks(b"content"))
    store.publish(f"{name}.json", b"{}")
    assert names(store, "shards/") == sorted([name, f"{name}.json"])
    assert read(store, name) == b"content"
    store.delete(name)
    assert names(store, "shards/") == [f"{name}.json"]


def test_a_name_that_is_too_long_is_told_as_such(store):
    for write in (
        lambda name: store.create(name, chunks(b"1")),
        lambda name: store.publish(name, b"1"),
        lambda name: store.replace(name, b"1"),
    ):
        with pytest.raises(OSError, match="too long") as error:
            write("shards/" + "n" * 2000)
        assert error.value.errno == errno.ENAMETOOLONG


def test_what_the_chunks_raise_comes_out_and_the_store_stays_usable(store):
    def failing(after: int) -> Iterator[memoryview]:
        yield memoryview(bytes(after))
        raise RuntimeError("the source failed")

    for size in (10, PART_BYTES + 10):
        with pytest.raises(RuntimeError, match="the source failed"):
            store.create(f"shards/{size}", failing(size))
    store.create("shards/b", chunks(b"1"))
    assert read(store, "shards/b") == b"1"


def test_a_line_whose_root_vanished_is_an_error_not_an_empty_line(stores, tmp_path, request):
    store = stores("job-task-0")
    if isinstance(store, CloudStorageStore):
        store = CloudStorageStore("no-such-bucket", "job-task-0")
    else:
        (tmp_path / "job-task-0").rmdir()
    with pytest.raises(FileNotFoundError):
        store.list("checkpoints/")


class TestLastLook:
    """`publish` with a last look: the commit."""

    def test_it_is_called_once_before_the_object_is_there(self, complete):
        seen = list[list[str]]()
        complete.publish("checkpoints/a.json", b"content", lambda: seen.append(names(complete, "checkpoints/")))
        assert seen == [[]]
        assert read(complete, "checkpoints/a.json") == b"content"
        assert names(complete, STAGED) == []

    def test_what_it_raises_ends_the_commit_without_a_trace(self, complete):
        def look() -> None:
            raise KeyError("superseded")

        with pytest.raises(KeyError):
            complete.publish("checkpoints/a.json", b"content", look)
        assert names(complete, "checkpoints/") == names(complete, STAGED) == []

    def test_it_does_not_overwrite(self, complete):
        complete.publish("checkpoints/a.json", b"first", lambda: None)
        with pytest.raises(FileExistsError):
            complete.publish("checkpoints/a.json", b"second", lambda: None)
        assert read(complete, "checkpoints/a.json") == b"first"
        assert names(complete, STAGED) == []

    @pytest.mark.parametrize("complete", ["disk", "local cloud"], indirect=True)
    def test_what_was_laid_ready_is_seen_and_without_it_nothing_comes_to_be(self, complete):
        def taken_away() -> None:
            ready = names(complete, STAGED)
            assert [name.startswith(f"{STAGED}a.json") for name in ready] == [True]
            complete.delete(ready[0])

        with pytest.raises(FileNotFoundError):
            complete.publish("checkpoints/a.json", b"content", taken_away)
        assert names(complete, "checkpoints/") == names(complete, STAGED) == []
