"""What was read before anybody asked is used once, only if it verified, and never decides anything."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from app.checkpoint import codec
from app.checkpoint.prefetch import Prefetch
from app.checkpoint.reader import read_manifest
from app.checkpoint.shards import pages
from app.checkpoint.shards.copying import address_of
from app.checkpoint.storage.directory import DirectoryStore
from tests.engine.lines import ORIGIN, Failing, attempt, of_any_state

if TYPE_CHECKING:
    from mmap import mmap

    from app.checkpoint.line import Line
    from app.checkpoint.manifest import Shard
    from app.checkpoint.names import CheckpointName

PLENTY = 2**40


def tensors(step: int) -> dict[str, object]:
    return {"step": step, "large": torch.arange(100_000) + step, "small": torch.full((7,), step), "flag": True}


@pytest.fixture
def line(tmp_path: Path) -> Line:
    found = of_any_state(tmp_path)
    for step in (10, 20):
        found.commit(step, codec.encode(tensors(step)), ORIGIN)
    return found


def newest(line: Line) -> CheckpointName:
    loaded = line.resume(ever_committed=True)
    assert loaded is not None
    return loaded.name


def shard_of(line: Line, name: CheckpointName) -> Shard:
    (shard,) = read_manifest(line.store, name).head.shards
    return shard


def flags_of(memory: mmap) -> list[str]:
    """Of the kernel's mapping that it is a part of: proc(5), smaps, VmFlags."""
    address, inside = address_of(memory), False
    for entry in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", entry):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and entry.startswith("VmFlags:"):
            return entry.split()[1:]
    raise AssertionError("the kernel does not tell of this mapping")


def plenty() -> int:
    return PLENTY


def same(state: dict[str, object], step: int) -> bool:
    wanted = tensors(step)
    return all(
        torch.equal(state[key], value) if isinstance(value, torch.Tensor) else state[key] == value  # type: ignore[arg-type]
        for key, value in wanted.items()
    )


class Counted(Failing):
    """Counts how often a shard is opened."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened = 0

        def count(operation: str, name: str) -> None:
            self.opened += operation == "open" and name.startswith("shards/")

        self.fail = count


def test_a_restore_takes_what_was_read_ahead_and_reads_no_shard_again(line, tmp_path):
    store = line.store = Counted(tmp_path)
    ahead = Prefetch(store, plenty)
    loaded = line.resume(ever_committed=True, ahead=ahead)
    assert same(loaded.state, 20)
    assert store.opened == 1


def test_bytes_read_ahead_go_into_existing_tensors_too(line):
    mine = torch.zeros(100_000, dtype=torch.int64)
    small = torch.zeros(7, dtype=torch.int64)
    given = {"large": mine, "small": small}
    loaded = line.resume(ever_committed=True, into=lambda _h, _t: given, ahead=Prefetch(line.store, plenty))
    assert loaded.state["large"].data_ptr() == mine.data_ptr()
    assert torch.equal(mine, torch.arange(100_000) + 20)
    assert torch.equal(small, torch.full((7,), 20))


def test_while_an_import_may_wait_no_huge_page_is_made(tmp_path):
    wide = of_any_state(tmp_path)
    name = wide.commit(10, codec.encode({"wide": torch.zeros(pages.HUGE_BYTES)}), ORIGIN)
    ready = Prefetch(wide.store, plenty).take(shard_of(wide, name))
    assert ready is not None
    assert len(ready) > 2 * pages.HUGE_BYTES
    assert "hg" not in flags_of(ready)
    assert "hg" in flags_of(pages.fresh(2 * pages.HUGE_BYTES)), "the test could not tell"


def test_each_shard_is_given_once_and_none_after_it_was_dropped(line):
    shard = shard_of(line, newest(line))
    ahead = Prefetch(line.store, plenty)
    assert ahead.take(shard) is not None
    assert ahead.take(shard) is None
    second = Prefetch(line.store, plenty)
    second.drop()
    assert second.take(shard) is None


def test_damage_found_while_reading_ahead_is_decided_by_the_ordinary_reading(line, tmp_path):
    path = tmp_path / shard_of(line, newest(line)).name
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    loaded = line.resume(ever_committed=True, ahead=Prefetch(line.store, plenty))
    assert same(loaded.state, 10)
    assert len(list((tmp_path / "quarantine").iterdir())) == 1


@pytest.mark.parametrize("operation", ["list", "open"])
def test_a_storage_that_fails_while_reading_ahead_is_asked_again(line, tmp_path, operation):
    store = line.store = Failing(tmp_path)

    def fail(asked: str, _name: str) -> None:
        if asked == operation and threading.current_thread().name == "prefetch":
            raise OSError(5, "Input/output error")

    store.fail = fail
    loaded = line.resume(ever_committed=True, ahead=Prefetch(store, plenty))
    assert same(loaded.state, 20)


def test_a_checkpoint_in_quarantine_is_not_read_ahead(line, tmp_path):
    name = newest(line)
    (tmp_path / "quarantine").mkdir()
    (tmp_path / name.record).write_text("{}")
    assert Prefetch(line.store, plenty).take(shard_of(line, name)) is None


@pytest.mark.parametrize("left", [None, 0, 2**29], ids=["unknown", "none", "too little"])
def test_without_memory_to_spare_nothing_is_read_ahead(line, left):
    assert Prefetch(line.store, lambda: left).take(shard_of(line, newest(line))) is None


def test_an_empty_line_has_nothing_to_read_ahead(tmp_path):
    line = attempt(DirectoryStore(tmp_path), 1)
    assert line.resume(ever_committed=False, ahead=Prefetch(line.store, plenty)) is None


def test_reading_ahead_keeps_no_process_from_ending(line):
    Prefetch(line.store, plenty)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "prefetch")
