"""A periodic save's view of the state at its boundary, taken in one of three ways.

eager: everything is copied into staging while the program stands still at the boundary. Simplest, always right.
deferred: what is only safe behind the optimizer's gate is copied by the saver during the next forward and backward; all
else at the boundary.
streaming: nothing large is copied, because it would not fit: the writer reads the tensors themselves. The gate is shut
until all is written; where too much is not safe behind it, the program stands still at the boundary that long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from app.checkpoint.shards.layout import members_of
from app.loop import memory, parts
from app.loop.interval import OVERHEAD
from app.loop.loan import Loan
from app.loop.movers import Mover, mover_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.checkpoint.codec import Encoded
    from app.loop.boundary import Boundary
    from app.loop.parts import Parts
    from app.loop.program import Program
    from app.loop.staging import Order

COPIED_WHILE_STREAMING_BYTES = 64 * 2**20
"""So much is copied at the boundary of a streaming save rather than to hold the program there."""


class Mode(StrEnum):
    AUTO = "auto"
    """Eager while the copy fits the overhead budget, else deferred; streaming when staging does not fit."""
    EAGER = "eager"
    DEFERRED = "deferred"
    STREAMING = "streaming"
    DIRECT = "direct"
    """Not for the user to choose: the save at a stop or at the end, when the program does nothing else."""


@dataclass
class Snapshot:
    step: int
    mode: Mode
    encoded: Encoded
    """For the writer, once `arrived` has returned."""
    taken_at_s: float = 0.0
    blocked_s: float = 0.0
    """How long the program stood still for it at its boundary; what the loan made it wait comes on top."""
    loan: Loan | None = None
    holds: bool = False
    """Whether the program must stay at the boundary until the loan is given back."""
    arrived: Callable[[], None] = lambda: None
    """Saver: wait until copies made at the boundary are complete."""


class Snapshots:
    """Takes them, in the way that was wanted as far as it is possible. For the training thread."""

    def __init__(self, program: Program, wanted: Mode, *, on_mount: bool) -> None:
        self._program = program
        self._wanted = wanted
        self._on_mount = on_mount
        self._mover: Mover | None = None
        self._told_bytes: int | None = None
        self._turn = 0

    def take(self, boundary: Boundary, interval_s: float) -> Snapshot:
        """`interval_s`: since the save before. Raises Unsavable, MemoryError, OSError."""
        found = parts.sort(self._program, boundary)
        self._turn += 1
        staged = [found.encoded.blobs[index].value for index in sorted(found.exposed + found.lendable)]
        mover = self._mover = self._mover or mover_for(staged)
        mode = self._mode(mover, staged, partial(_order, found), interval_s)
        if mode is Mode.STREAMING:
            return self._stream(boundary.step, found, mover)
        lent = found.lendable if mode is Mode.DEFERRED else []
        return self._copy(boundary.step, found, mover, lent)

    def _mode(self, mover: Mover, staged: list[Any], order: Order, interval_s: float) -> Mode:
        if self._wanted is Mode.STREAMING:
            return Mode.STREAMING
        new_bytes = mover.new_bytes(staged, order)
        if new_bytes and not self._fits(new_bytes):
            return Mode.STREAMING
        if self._wanted is not Mode.AUTO:
            return self._wanted
        cheap = mover.expected_s(sum(value.nbytes for value in staged)) <= OVERHEAD * interval_s
        return Mode.EAGER if cheap else Mode.DEFERRED

    def _fits(self, new_bytes: int) -> bool:
        """Looked at before each save that needs more, told when it needs another amount."""
        quiet, self._told_bytes = new_bytes == self._told_bytes, new_bytes
        return memory.staging_fits(new_bytes, on_mount=self._on_mount, quiet=quiet)

    def _copy(self, step: int, found: Parts, mover: Mover, lent: list[int]) -> Snapshot:
        blobs = list(found.encoded.blobs)
        staged = sorted(found.exposed + found.lendable)
        places = mover.stage([blobs[index].value for index in staged], partial(_order, found))
        views = dict(zip(staged, places, strict=True))
        late = set(lent)
        now = [index for index in staged if index not in late]
        mover.copy_now([views[index] for index in now], [blobs[index].value for index in now])
        mode, loan = Mode.EAGER, None
        if lent:
            mode = Mode.DEFERRED
            into, values = [views[index] for index in lent], [blobs[index].value for index in lent]
            watch = mover.watch([blobs[index].path for index in lent], values, into, self._turn)
            loan = Loan(watch, lambda: mover.copy_late(into, values))
        copied = tuple(b.of(views[i]) if i in views else b for i, b in enumerate(blobs))
        encoded = replace(found.encoded, blobs=copied, is_own=True)
        return Snapshot(step, mode, encoded, loan=loan, arrived=mover.arrived)

    def _stream(self, step: int, found: Parts, mover: Mover) -> Snapshot:
        blobs = found.encoded.blobs
        holds = found.size_bytes(found.exposed) > COPIED_WHILE_STREAMING_BYTES
        exposed = set[int]() if holds else set(found.exposed)
        copied = tuple(blob.copied() if index in exposed else blob for index, blob in enumerate(blobs))
        names = [blobs[index].path for index in found.lendable]
        watch = mover.watch(names, [blobs[index].value for index in found.lendable], None, self._turn)
        loan = Loan(watch, None)
        return Snapshot(
            step, Mode.STREAMING, replace(found.encoded, blobs=copied), loan=loan, holds=holds, arrived=mover.arrived
        )


def _order(found: Parts) -> Iterator[tuple[int, int]]:
    """Of what is staged, as it will lie in the shards' files."""
    staged = {index: number for number, index in enumerate(sorted(found.exposed + found.lendable))}
    sizes = [blob.size_bytes for blob in found.encoded.blobs]
    for members, _frozen in members_of(sizes, found.encoded.frozen):
        before = 0
        for index in members:
            if index in staged:
                yield staged[index], before
            before += sizes[index]
