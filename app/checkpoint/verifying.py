"""Whether a checkpoint would load, found out by reading all of it in bounded memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from app.checkpoint import reader, sense
from app.checkpoint.manifest import Damaged
from app.checkpoint.resume import SECOND_READ_AFTER_S
from app.checkpoint.shards import content
from app.checkpoint.shards.safetensors_file import LENGTH
from app.checkpoint.table import Table
from app.checkpoint.trees.tree import table_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.checkpoint.manifest import Manifest
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.shards.shard_plan import Extent
    from app.checkpoint.storage.store import Store


def verify(
    store: Store,
    name: CheckpointName,
    seen: Callable[[int], None] = lambda _bytes: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Manifest:
    """Every byte is what was written, and the state would load. `seen` is told of bytes as they are read.

    Without torch no more is known of its tensors than that their shards are there.

    Raises Torn; Damaged when a second, fresh read says so too; Unsupported; FileNotFoundError when it was pruned
    meanwhile; OSError.
    """
    try:
        return _once(store, name, seen)
    except Damaged:
        sleep(SECOND_READ_AFTER_S)
        return _once(store, name, lambda _bytes: None)


def checked_table(manifest: Manifest) -> Table:
    """The table of a session's checkpoint. Raises Damaged."""
    try:
        table = Table.decode(manifest.table, manifest.format)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"its bytes verify but its table makes no sense: {error}") from error
    if beyond := [place for place in table.places if not 0 <= place.shard < len(manifest.head.shards)]:
        raise Damaged(f"its bytes verify but {beyond[0].path} is said to lie in shard {beyond[0].shard}")
    return table


def _once(store: Store, name: CheckpointName, seen: Callable[[int], None]) -> Manifest:
    manifest = reader.read_manifest(store, name)
    extents = _extents(manifest)
    for index, shard in enumerate(manifest.head.shards):
        first = b""
        with reader.telling_absence(store, name):
            for block in content.stream(store, shard):
                first = first or bytes(block[: LENGTH.size])
                seen(len(block))
        if extents is not None:
            sense.refuse_misplaced(shard, extents[index], first)
    return manifest


def _extents(manifest: Manifest) -> list[list[Extent]] | None:
    """What a table that makes sense says to lie in each shard, where that can be told. Raises Damaged, Unsupported."""
    if manifest.head.files is not None:
        table_of(manifest)  # which compares it with the shards' sizes as well
        return None
    checked_table(manifest)
    try:
        return sense.of(manifest)
    except ModuleNotFoundError:  # no torch here, which alone knows how many bytes its dtypes have
        return None
