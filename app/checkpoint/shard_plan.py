"""Where each byte of a shard goes, in the order of the file: into a tensor, into a block, or past."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.checkpoint import pages, values
from app.checkpoint.safetensors_file import LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from mmap import mmap

    import torch

PIECE_BYTES = 2**20
"""Read and summed at a time: it is still in the core's cache when it is summed."""
SMALL_BYTES = 2**15
"""Smaller tensors that follow each other are read together: a system call each would cost more than their bytes."""


class Extent(NamedTuple):
    """The bytes of one line of the table."""

    begin: int
    """In the file."""
    size: int
    line: int
    """Of the table."""

    @property
    def end(self) -> int:
        return self.begin + self.size


class Piece(NamedTuple):
    """Consecutive bytes of the file, at most PIECE_BYTES of them."""

    begin: int
    size: int
    memory: memoryview | None
    """Where they belong; None: to the reader's own block."""
    scattered: tuple[tuple[int, int, int], ...] = ()
    """Parts of the block that belong elsewhere: offset in it, bytes, address."""

    @property
    def end(self) -> int:
        return self.begin + self.size


Homes = dict[int, "tuple[mmap, int]"]
"""Line of the table -> the mapping that holds its bytes, and where in it."""


class Planner:
    """One shard's. `targets`: existing tensors by line of the table; all others get fresh memory."""

    def __init__(
        self, extents: Sequence[Extent], targets: Mapping[int, torch.Tensor], ready: mmap | None = None
    ) -> None:
        """`ready`: the whole file in memory already; large tensors without a target then stay where they are."""
        self.pieces = list[Piece]()
        self.homes: Homes = {}
        self._targets = targets
        self._ready = ready
        self._block = list[Extent]()
        self._arena = pages.Arena(sum(extent.size for extent in extents if extent.line not in targets))
        self._extents = sorted(extents)

    def plan(self, begin: int, end: int) -> None:
        """Fills `pieces` and `homes`, from byte `begin` of the file to its end.

        Raises ValueError for extents that overlap or end behind it.
        """
        at = begin
        for extent in self._extents:
            if extent.begin < at or extent.end > end:
                raise ValueError(f"line {extent.line} of the table overlaps another or ends behind its shard")
            if extent.begin > at or extent.size >= SMALL_BYTES or extent.end - self._block_begin(at) > PIECE_BYTES:
                self._close_block()
            self._pass(at, extent.begin)
            if extent.size >= SMALL_BYTES:
                self._large(extent)
            else:
                self._block.append(extent)
            at = extent.end
        self._close_block()
        self._pass(at, end)

    def _block_begin(self, otherwise: int) -> int:
        return self._block[0].begin if self._block else otherwise

    def _large(self, extent: Extent) -> None:
        target = self._targets.get(extent.line)
        if target is not None:
            memory = values.memory_of(target)
        elif self._ready is not None and extent.begin % LINE_BYTES == 0:
            self.homes[extent.line] = self._ready, extent.begin
            return
        else:
            mapping, begin = self._arena.take(extent.size)
            self.homes[extent.line] = mapping, begin
            memory = memoryview(mapping)[begin : begin + extent.size]
        for begin in range(0, extent.size, PIECE_BYTES):
            part = memory[begin : begin + PIECE_BYTES]
            self.pieces.append(Piece(extent.begin + begin, part.nbytes, part))

    def _close_block(self) -> None:
        if not self._block:
            return
        block, self._block = self._block, []
        begin, size = block[0].begin, block[-1].end - block[0].begin
        memory = None
        if any(extent.line not in self._targets for extent in block):
            mapping, at = self._arena.take(size, like=begin)
            memory = memoryview(mapping)[at : at + size]
            for extent in block:
                if extent.line not in self._targets:
                    self.homes[extent.line] = mapping, at + extent.begin - begin
        scattered = tuple(
            (extent.begin - begin, extent.size, target.data_ptr())
            for extent in block
            if (target := self._targets.get(extent.line)) is not None
        )
        self.pieces.append(Piece(begin, size, memory, scattered))

    def _pass(self, begin: int, end: int) -> None:
        """The header, and what belongs to no line of this table: read because the checksum is over it as well."""
        if self._ready is None:
            for at in range(begin, end, PIECE_BYTES):
                self.pieces.append(Piece(at, min(PIECE_BYTES, end - at), None))
