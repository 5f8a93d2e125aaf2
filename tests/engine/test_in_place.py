"""What only a save has goes to the disk from where it lies; what the program may write to is copied first."""

from __future__ import annotations

import mmap
import os
import threading
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from app.checkpoint import codec
from app.checkpoint.shards import blocks, pages
from app.checkpoint.shards.layout import layout
from app.checkpoint.storage.directory import DirectoryStore, Medium
from app.loop import snapshot
from app.loop.program import Program
from app.loop.snapshot import Mode, Snapshots
from tests.engine.loops import Loop, Wide, steps_on

SECTOR = 4096


def address_of(piece: memoryview) -> int:
    return np.frombuffer(piece, np.uint8).ctypes.data


def memory_of(size: int) -> torch.Tensor:
    """Random bytes that begin at a page."""
    found = torch.frombuffer(pages.lasting(size), dtype=torch.uint8)
    found.copy_(torch.from_numpy(np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)))
    return found


@pytest.mark.parametrize("header", [0, SECTOR, SECTOR + 64, 2**22 - 64, 2**22])
@pytest.mark.parametrize("begin_at", [0, 64, SECTOR - 64])
@pytest.mark.parametrize("size", [5, SECTOR, 2**20 - 1, 2**20, 2**20 + 5, 17 * 2**20 + 64])
def test_wherever_it_lies_and_whatever_comes_before_and_after_the_stream_holds_the_same_bytes(header, begin_at, size):
    memory = memory_of(18 * 2**20)
    before, after = bytes(range(256)) * (header // 256) + b"h" * (header % 256), torch.arange(77)
    blobs = codec.encode([memory[begin_at : begin_at + size], after, memory[SECTOR : 3 * 2**20]]).blobs
    plain = b"".join(map(bytes, blocks.stream(before, blobs)))
    found = [(piece.nbytes, bytes(piece)) for piece in blocks.stream(before, blobs, in_place=True)]
    assert b"".join(piece for _, piece in found) == plain
    assert all(length % SECTOR == 0 for length, _ in found[:-1])
    assert len(found) == 1 or found[0][0] >= 2**18, "a store tells by the first piece whether to pass the page cache by"


def test_only_what_lies_as_in_the_file_is_not_copied():
    memory = memory_of(4 * 2**20)
    for shift, in_place in ((0, True), (64, False)):
        (blob,) = codec.encode([memory[shift:]]).blobs
        lies = range(memory.data_ptr(), memory.data_ptr() + memory.nbytes)
        found = [address_of(piece) in lies for piece in blocks.stream(b"h" * SECTOR, [blob], in_place=True)]
        assert any(found) is in_place
        assert not any(address_of(piece) in lies for piece in blocks.stream(b"h" * SECTOR, [blob]))


class Unaligned(Loop):
    """Large tensors of sizes that are no whole sectors, and small ones of all kinds between them."""

    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Sequential(
            torch.nn.Linear(4, 525), torch.nn.BatchNorm1d(525), torch.nn.Linear(525, 525), torch.nn.Linear(525, 528),
            torch.nn.BatchNorm1d(528), torch.nn.Linear(528, 4112), torch.nn.Linear(4112, 1),
        )  # fmt: skip
        self.optimizer = torch.optim.AdamW(self.model.parameters())


@pytest.mark.parametrize("mode", [Mode.EAGER, Mode.DEFERRED])
def test_a_snapshot_lies_as_its_shards_will_so_that_next_to_nothing_is_copied_again(mode):
    loop = Unaligned()
    loop.body(0)
    program = Program(model=loop.model, optimizer=loop.optimizer)
    program.update_begins(loop.optimizer)
    taken = Snapshots(program, mode, on_mount=False).take(program.capture(1), 60.0)
    if taken.loan:
        taken.loan.copy()
    large = [blob.value for blob in taken.encoded.blobs if blob.size_bytes >= 2**20]
    lies = range(min(t.data_ptr() for t in large), max(t.data_ptr() + t.nbytes for t in large))
    in_place = 0
    for plan in layout(taken.encoded).shards:
        members = [taken.encoded.blobs[index] for index in plan.members]
        in_place += sum(
            piece.nbytes
            for piece in blocks.stream(plan.header, members, in_place=taken.encoded.is_own)
            if address_of(piece) in lies
        )
    assert in_place >= 0.85 * taken.encoded.size_bytes


def test_what_the_program_may_write_to_is_not_written_from_where_it_lies():
    loop = Unaligned()
    loop.body(0)
    program = Program(model=loop.model, optimizer=loop.optimizer)
    assert not snapshot.parts.encode(program, program.capture(1)).is_own  # what a stop or the end saves
    assert not Snapshots(program, Mode.STREAMING, on_mount=False).take(program.capture(1), 60.0).encoded.is_own


@pytest.fixture
def writers(monkeypatch) -> dict[int, set[int]]:
    """Step -> threads that write its shards, of which there are four. At the last step (9) the first two must meet."""
    seen: dict[int, set[int]] = {}
    both = threading.Barrier(2, timeout=60)
    create = DirectoryStore.create

    def noting(self: DirectoryStore, name: str, chunks: Any) -> Any:
        _, checkpoint, shard = name.split("/")
        step = int(checkpoint[:12])
        seen.setdefault(step, set()).add(threading.get_ident())
        if (step == 9 or self.medium is Medium.MOUNT) and shard[:3] in ("000", "001"):
            both.wait()
        return create(self, name, chunks)

    monkeypatch.setattr(DirectoryStore, "create", noting)
    monkeypatch.setattr("app.checkpoint.shards.layout.WORTH_A_SHARD_BYTES", 2**12)
    monkeypatch.setattr("app.checkpoint.shards.layout._cores", lambda: 4)
    return seen


def test_a_save_beside_training_has_one_thread_and_the_last_one_several(root, writers):
    Wide().run(root, every=4, total=9)
    assert (len(writers[4]), len(writers[8])) == (1, 1)
    assert len(writers[9]) > 1
    assert steps_on(root) == [4, 8, 9]


def test_to_a_bucket_several_shards_are_written_at_once_beside_training(root, writers, monkeypatch):
    monkeypatch.setattr("app.checkpoint.storage.directory.medium_of", lambda _path: Medium.MOUNT)
    Wide().run(root, every=4, total=5)
    assert len(writers[4]) > 1
    assert steps_on(root) == [4, 5]


def test_a_child_finds_none_of_what_is_being_saved_and_changes_none_of_it():
    memory = pages.lasting(2**21)
    memory[:5] = b"bytes"
    child = os.fork()
    if not child:
        try:
            seen = memory[:5]
            memory[:5] = b"other"
            os._exit(0 if seen in (b"\0" * 5, b"bytes") else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert memory[:5] == b"bytes"


def test_memory_is_touched_in_parts_so_that_a_signal_is_heard_in_between(monkeypatch):
    class Told(mmap.mmap):
        touched: ClassVar[list[tuple[int, int]]] = []

        def madvise(self, advice: int, *part: int) -> None:
            if part:
                self.touched.append((part[0], part[1]))
            super().madvise(advice, *part)

    monkeypatch.setattr(pages.mmap, "mmap", Told)
    size = 3 * pages.TOUCHED_BYTES + 2 * pages.HUGE_BYTES
    pages.lasting(size)
    begins, lengths = zip(*Told.touched, strict=True)
    assert max(lengths) == pages.TOUCHED_BYTES
    assert begins == tuple(range(0, size, pages.TOUCHED_BYTES))
    assert sum(lengths) == size
