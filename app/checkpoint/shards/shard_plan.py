"""Where each byte of a shard goes, in the order of the file: into a tensor, into a block, or past."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from app.checkpoint.shards import pages, values
from app.checkpoint.shards.copying import address_of
from app.checkpoint.shards.safetensors_file import ALIGNMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from mmap import mmap

    import torch

PIECE_BYTES = 2**20
"""Read and summed at a time: it is still in the core's cache when it is summed."""
SMALL_BYTES = 2**15
"""Smaller tensors that follow each other are read together: a system call each would cost more than their bytes."""


class Extent(NamedTuple):
    """The bytes of one row of the table."""

    begin: int
    """In the shard's data section."""
    size: int
    row: int
    """Of the table."""


class Run(NamedTuple):
    """Tensors of one size that lie back to back in a piece, and apart where they belong."""

    offset: int
    """In the piece."""
    size: int
    """Of each."""
    parts: int
    address: int
    """Where the first belongs."""
    stride: int
    """From the place of one to that of the next."""


class Piece(NamedTuple):
    """Consecutive bytes of the file, at most PIECE_BYTES of them."""

    begin: int
    size: int
    memory: memoryview | None
    """Where they belong; None: to the reader's own block."""
    scattered: Sequence[Run] = ()
    """Parts of these bytes that belong elsewhere."""

    @property
    def end(self) -> int:
        return self.begin + self.size


Homes = dict[int, "tuple[mmap, int]"]
"""Row of the table -> the mapping that holds its bytes, and where in it."""


class Planner:
    """One shard's. `targets`: existing tensors by row of the table; all others get fresh memory.

    With ten thousand tensors a microsecond for each is as long as reading all of them takes: hence the bare loops.
    """

    def __init__(self, targets: Mapping[int, torch.Tensor], ready: mmap | None = None) -> None:
        """`ready`: the whole file in memory already; large tensors without a target then stay where they are."""
        self.pieces = list[Piece]()
        self.homes: Homes = {}
        self._targets = targets
        self._ready = ready
        self._arena = pages.Arena(0)

    def plan(self, extents: Sequence[Extent], data: int, begin: int, end: int) -> None:
        """Fills `pieces` and `homes`, from byte `begin` of the file to its end; its data section begins at `data`.

        Raises ValueError for extents that overlap or end behind it.
        """
        self._arena = pages.Arena(sum(extent.size for extent in extents) + ALIGNMENT_BYTES * len(extents))
        at, block = begin, list[tuple[int, int, int]]()
        for begins, size, row in sorted(extents):
            first = data + begins
            last = first + size
            if first < at or last > end:
                raise ValueError(f"row {row} of the table overlaps another or ends behind its shard")
            if block and (first > at or size >= SMALL_BYTES or last - block[0][0] > PIECE_BYTES):
                self._small(block, at)
                block = []
            if first > at:
                self._pass(at, first)
            if size >= SMALL_BYTES:
                self._large(first, size, row)
            else:
                block.append((first, size, row))
            at = last
        if block:
            self._small(block, at)
        self._pass(at, end)

    def _large(self, first: int, size: int, row: int) -> None:
        target = self._targets.get(row)
        if target is not None:
            memory = values.memory_of(target)
        elif self._ready is not None and first % ALIGNMENT_BYTES == 0:
            self.homes[row] = self._ready, first
            return
        else:
            mapping, begin = self._arena.take(size)
            self.homes[row] = mapping, begin
            memory = memoryview(mapping)[begin : begin + size]
        for begin in range(0, size, PIECE_BYTES):
            part = memory[begin : begin + PIECE_BYTES]
            self.pieces.append(Piece(first + begin, part.nbytes, part))

    def _small(self, block: list[tuple[int, int, int]], end: int) -> None:
        """Tensors that lie aligned in the file are read to where they stay, others are moved there from the block."""
        begin, targets, homes = block[0][0], self._targets, self.homes
        fresh = [extent for extent in block if extent[2] not in targets] if targets else block
        scattered = (
            [Run(first - begin, size, 1, targets[row].data_ptr(), size) for first, size, row in block if row in targets]
            if targets
            else []
        )
        memory = None
        if fresh and not any(first % ALIGNMENT_BYTES for first, _, _ in fresh):
            mapping, at = self._arena.take(end - begin, like=begin)
            memory = memoryview(mapping)[at : at + end - begin]
            homes.update({row: (mapping, at + first - begin) for first, _, row in fresh})
        elif fresh:
            mapping, at = self._arena.take(end - begin + ALIGNMENT_BYTES * len(fresh))
            base = address_of(mapping)
            for (first, size), rows in _runs(fresh):
                stride = (size + ALIGNMENT_BYTES - 1) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
                scattered.append(Run(first - begin, size, len(rows), base + at, stride))
                homes.update(zip(rows, zip(repeat(mapping), range(at, at + stride * len(rows), stride)), strict=False))
                at += stride * len(rows)
        self.pieces.append(Piece(begin, end - begin, memory, scattered))

    def _pass(self, begin: int, end: int) -> None:
        """The header, and what belongs to no row of this table: read because the checksum is over it as well."""
        if self._ready is None:
            for at in range(begin, end, PIECE_BYTES):
                self.pieces.append(Piece(at, min(PIECE_BYTES, end - at), None))


def _runs(extents: Iterable[tuple[int, int, int]]) -> list[tuple[tuple[int, int], list[int]]]:
    """Neighbours of one size as one: where the first begins and the size of each, and their rows."""
    runs, at, last = list[tuple[tuple[int, int], list[int]]](), -1, -1
    rows = list[int]()
    for first, size, row in extents:
        if first != at or size != last:
            rows = list[int]()
            runs.append(((first, size), rows))
        rows.append(row)
        at, last = first + size, size
    return runs
