"""All shards of a checkpoint at once: several threads, and where one shard is large several in the same file."""

from __future__ import annotations

import os
import struct
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, ParamSpec, Protocol, TypeVar

import crc32c

from app.checkpoint.manifest import Damaged
from app.checkpoint.shards.crc32c_combine import combine
from app.checkpoint.shards.safetensors_file import LENGTH
from app.checkpoint.shards.shard_plan import Planner
from app.checkpoint.shards.shard_reading import copy_pieces, opened, read_exactly, read_pieces, refuse_other_bytes
from app.checkpoint.storage.store import PARALLEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from mmap import mmap

    import torch

    from app.checkpoint.manifest import Shard
    from app.checkpoint.shards.shard_plan import Extent, Homes, Piece
    from app.checkpoint.storage.store import Store

P = ParamSpec("P")
T = TypeVar("T")

_Part = tuple["Future[int]", int]
"""Its crc32c, and its length in bytes."""

STRIPE_BYTES = 8 * 2**20
"""A thread's part of a shard is no smaller: to start it costs as much as to read a megabyte."""


class Ahead(Protocol):
    """Shards that were read before anybody asked for them (app/checkpoint/prefetch.py)."""

    def take(self, shard: Shard) -> mmap | None:
        """The whole file, verified, once; None when it must be read."""
        ...


def threads() -> int:
    """To read with: no more than there are cores for this process."""
    return min(PARALLEL, len(os.sched_getaffinity(0)))


def read_all(
    store: Store,
    shards: Sequence[Shard],
    extents: Sequence[Sequence[Extent]],
    targets: Mapping[int, torch.Tensor],
    ahead: Ahead | None = None,
) -> Homes:
    """Every byte, verified: in its target where there is one, else in fresh memory of which the places are returned.

    `extents`, by shard, begin where they do in its data section. Raises Damaged, OSError.
    """
    total = sum(shard.size_bytes for shard in shards)
    if total <= STRIPE_BYTES or threads() < 2:
        return _Pass(store, targets, ahead, total, None).read(shards, extents)
    pool = ThreadPoolExecutor(threads(), thread_name_prefix="read")
    try:
        return _Pass(store, targets, ahead, max(STRIPE_BYTES, total // (2 * threads())), pool).read(shards, extents)
    finally:
        pool.shutdown(cancel_futures=True)  # and wait: a thread that still writes would spoil the next reading


@dataclass(frozen=True)
class _Pass:
    store: Store
    targets: Mapping[int, torch.Tensor]
    ahead: Ahead | None
    stripe_bytes: int
    pool: ThreadPoolExecutor | None

    def read(self, shards: Sequence[Shard], extents: Sequence[Sequence[Extent]]) -> Homes:
        begun = [self._begin(self._shard, shard, rows) for shard, rows in zip(shards, extents, strict=True)]
        homes: Homes = {}
        for shard, each in zip(shards, begun, strict=True):
            found, parts = each.result()
            homes |= found
            checksum = combine((part.result(), length) for part, length in parts)
            if parts:
                refuse_other_bytes(shard, checksum)
        return homes

    def _shard(self, shard: Shard, rows: Sequence[Extent]) -> tuple[Homes, list[_Part]]:
        """Where fresh tensors lie, and the parts in order; no parts where all was verified before."""
        ready = self.ahead.take(shard) if self.ahead else None
        if ready is not None:
            planned = _planned(shard, rows, ready[: LENGTH.size], self.targets, ready)
            copy_pieces(ready, planned.pieces)
            return planned.homes, []
        with opened(self.store, shard) as file:
            length = bytearray(min(LENGTH.size, shard.size_bytes))
            read_exactly(file, memoryview(length), shard)
            planned = _planned(shard, rows, bytes(length), self.targets, None)
            first, *others = _divided(planned.pieces, self.stripe_bytes if _is_on_a_file_system(file) else None)
            following = [(self._begin(self._stripe, shard, stripe), _bytes(stripe)) for stripe in others]
            begun = Future[int]()
            begun.set_result(read_pieces(file, shard, first, crc32c.crc32c(length)))
            return planned.homes, [(begun, len(length) + _bytes(first)), *following]

    def _stripe(self, shard: Shard, pieces: Sequence[Piece]) -> int:
        with opened(self.store, shard) as file:
            file.seek(pieces[0].begin)
            return read_pieces(file, shard, pieces)

    def _begin(self, action: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> Future[T]:
        if self.pool is not None:
            return self.pool.submit(action, *arguments, **named)
        done = Future[T]()
        done.set_result(action(*arguments, **named))
        return done


def _planned(
    shard: Shard, rows: Sequence[Extent], length: bytes, targets: Mapping[int, torch.Tensor], ready: mmap | None
) -> Planner:
    """What follows the header's length."""
    try:
        data = LENGTH.size + LENGTH.unpack(length)[0]
        planner = Planner(targets, ready)
        planner.plan(rows, data, len(length), shard.size_bytes)
    except (ValueError, struct.error) as error:
        raise Damaged(f"shard {shard.name} is not as its manifest says: {error}") from error
    return planner


def _is_on_a_file_system(file: BinaryIO) -> bool:
    """Others ask for several parts at once themselves, and for more than was read so far."""
    try:
        return file.fileno() >= 0
    except OSError:
        return False


def _divided(pieces: Sequence[Piece], stripe_bytes: int | None) -> list[list[Piece]]:
    """Into stripes of about that size; at least one, and without a size one."""
    stripes: list[list[Piece]] = [[]]
    filled = 0
    for piece in pieces:
        if stripe_bytes is not None and filled >= stripe_bytes:
            stripes.append([])
            filled = 0
        stripes[-1].append(piece)
        filled += piece.size
    return stripes


def _bytes(pieces: Sequence[Piece]) -> int:
    return sum(piece.size for piece in pieces)
