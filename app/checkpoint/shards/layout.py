"""Which tensor goes into which shard, and all the JSON that follows from that alone.

It depends on paths, kinds, dtypes, shapes and on what is frozen, none of which changes from save to save as a rule: so
the layout of the save before is kept, and the JSON of ten thousand tensors made once.

Frozen tensors get shards of their own, which a later checkpoint may refer to.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from app.checkpoint import collector
from app.checkpoint.shards import safetensors_file
from app.checkpoint.storage.store import PARALLEL
from app.checkpoint.table import columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.checkpoint.codec import Blob, Encoded

SHARD_BYTES = 256 * 2**20
"""No shard of several tensors is much larger."""
WORTH_A_SHARD_BYTES = 4 * 2**20
"""Fewer bytes are written sooner by one thread than by two."""


@dataclass(frozen=True)
class Meaning:
    """What decides a layout: equal ones have equal layouts."""

    paths: list[str]
    kinds: list[str]
    dtypes: list[str]
    shapes: list[tuple[int, ...]]
    frozen: frozenset[int]
    shard_bytes: int


@dataclass(frozen=True)
class ShardPlan:
    meaning: Meaning
    members: Sequence[int]
    """Indices of its blobs, in the order of their bytes."""
    sizes: list[int]
    """Of its blobs."""
    frozen: bool

    @cached_property
    def header(self) -> bytes:
        of = self.meaning
        blobs = ((of.paths[index], of.dtypes[index], of.shapes[index]) for index in self.members)
        with collector.resting():
            return safetensors_file.header(blobs, self.sizes)

    @property
    def size_bytes(self) -> int:
        """Of the whole file."""
        return len(self.header) + sum(self.sizes)


@dataclass(frozen=True)
class Layout:
    """The JSON is made when it is asked for: threads that write meanwhile need not wait for it."""

    shards: tuple[ShardPlan, ...]
    meaning: Meaning

    @cached_property
    def columns(self) -> bytes:
        """Of the table (app/checkpoint/table.py)."""
        of = self.meaning
        shards, begins = [0] * len(of.paths), [0] * len(of.paths)
        for shard, plan in enumerate(self.shards):
            for index, begin in zip(plan.members, accumulate(plan.sizes, initial=0), strict=False):
                shards[index], begins[index] = shard, begin
        return columns(of.paths, of.kinds, of.dtypes, of.shapes, shards, begins)


def layout(state: Encoded, before: Layout | None = None, shard_bytes: int = SHARD_BYTES) -> Layout:
    """`before` itself if it fits this state."""
    blobs, frozen = state.blobs, state.frozen
    meaning = Meaning(
        [blob.path for blob in blobs],
        [blob.kind for blob in blobs],
        [blob.dtype for blob in blobs],
        [blob.shape for blob in blobs],
        frozen,
        shard_bytes,
    )
    if before and before.meaning == meaning:
        return before
    sizes = [blob.value.nbytes for blob in blobs]
    plans = [
        ShardPlan(meaning, members, [sizes[index] for index in members], still)
        for members, still in members_of(sizes, frozen, shard_bytes)
    ]
    return Layout(tuple(plans), meaning)


def members_of(
    sizes: Sequence[int], frozen: frozenset[int], shard_bytes: int = SHARD_BYTES
) -> Iterator[tuple[list[int], bool]]:
    """Of each shard the indices of its blobs, in the order of their bytes, and whether they are frozen."""
    moving = [index for index in range(len(sizes)) if index not in frozen] if frozen else range(len(sizes))

    def odd(index: int) -> bool:
        """Those come last, and so make no other lie askew."""
        return sizes[index] % safetensors_file.ALIGNMENT_BYTES != 0

    for indices, still in ((moving, False), (sorted(frozen), True)):
        of_these = [sizes[index] for index in indices]
        streams = PARALLEL if still else min(PARALLEL, 2 * _cores())
        for group in _split(of_these, shard_bytes, streams):
            yield sorted(indices[group], key=odd), still


def _split(sizes: Sequence[int], shard_bytes: int, parallel: int) -> list[slice]:
    """Neighbours that together are of about the same size, so that threads which write one each end together."""
    total = sum(sizes)
    streams = min(parallel, max(1, total // WORTH_A_SHARD_BYTES))
    count = max(streams, -(-total // shard_bytes))
    middles = [2 * end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]  # twice, to be whole
    ends = [bisect_left(middles, -(-2 * total * part // count)) for part in range(1, count)] + [len(sizes)]
    return [slice(begin, end) for begin, end in pairwise([0, *ends]) if begin < end]


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def blobs_of(plan: ShardPlan, state: Encoded) -> list[Blob]:
    return [state.blobs[index] for index in plan.members]
