"""Which tensor goes into which shard, and all the JSON that follows from that alone.

It depends on paths, kinds, dtypes, shapes and on what is frozen, none of which changes from save to save as a rule: so
the layout of the save before is kept, and the JSON of ten thousand tensors made once.

Frozen tensors get shards of their own, which a later checkpoint may refer to.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.checkpoint import safetensors_file
from app.checkpoint.table import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.checkpoint.codec import Blob, Encoded

SHARD_BYTES = 256 * 2**20
"""No shard of several tensors is much larger."""
PARALLEL = 4
"""A bucket mount stages a fifth open file in memory."""
WORTH_A_SHARD_BYTES = 4 * 2**20
"""Fewer bytes are written sooner by one thread than by two."""


@dataclass(frozen=True)
class ShardPlan:
    members: tuple[int, ...]
    """Indices of its blobs, in the order of their bytes."""
    header: bytes
    size_bytes: int
    """Of the whole file."""
    frozen: bool


@dataclass(frozen=True)
class Layout:
    shards: tuple[ShardPlan, ...]
    columns: bytes
    """Of the table (table.py)."""
    key: tuple[object, ...]


def layout(state: Encoded, before: Layout | None = None, shard_bytes: int = SHARD_BYTES) -> Layout:
    """`before` itself if it fits this state."""
    blobs, frozen = state.blobs, state.frozen
    paths, kinds = [blob.path for blob in blobs], [blob.kind for blob in blobs]
    dtypes, shapes = [blob.dtype for blob in blobs], [blob.shape for blob in blobs]
    key = (paths, kinds, dtypes, shapes, frozen, shard_bytes)
    if before and before.key == key:
        return before
    sizes = [blob.size_bytes for blob in blobs]
    moving = [index for index in range(len(blobs)) if index not in frozen]
    groups = _grouped(moving, sizes, shard_bytes, min(PARALLEL, 2 * _cores()))
    first_frozen = len(groups)
    groups += _grouped(sorted(frozen), sizes, shard_bytes, PARALLEL)
    shards, begins = [0] * len(blobs), [0] * len(blobs)
    plans = list[ShardPlan]()
    for shard, group in enumerate(groups):
        group.sort(key=lambda index: sizes[index] % safetensors_file.LINE_BYTES != 0)  # odd ones make none lie askew
        end = 0
        for index in group:
            shards[index], begins[index] = shard, end
            end += sizes[index]
        header = safetensors_file.header(blobs, sizes, begins, group)
        plans.append(ShardPlan(tuple(group), header, len(header) + end, shard >= first_frozen))
    return Layout(tuple(plans), columns(paths, kinds, dtypes, shapes, shards, begins), key)


def _grouped(indices: Sequence[int], sizes: Sequence[int], shard_bytes: int, parallel: int) -> list[list[int]]:
    """In order and of about the same size, so that threads which write one each end together."""
    total = sum(sizes[index] for index in indices)
    streams = min(parallel, max(1, total // WORTH_A_SHARD_BYTES))
    count = max(streams, -(-total // shard_bytes))
    groups: list[list[int]] = [[] for _ in range(count)]
    at = 0
    for index in indices:
        middle = 2 * at + sizes[index]  # twice, to stay with whole numbers
        groups[min(count - 1, middle * count // (2 * total)) if total else 0].append(index)
        at += sizes[index]
    return [group for group in groups if group]


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def blobs_of(plan: ShardPlan, state: Encoded) -> list[Blob]:
    return [state.blobs[index] for index in plan.members]
