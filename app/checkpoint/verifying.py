"""Whether a checkpoint holds what was written, found out by reading all of it in bounded memory, without torch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from app.checkpoint import reader
from app.checkpoint.manifest import Damaged
from app.checkpoint.resume import SECOND_READ_AFTER_S
from app.checkpoint.shards import content
from app.checkpoint.table import Table
from app.checkpoint.trees.tree import table_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.checkpoint.manifest import Manifest
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.storage.store import Store


def verify(
    store: Store,
    name: CheckpointName,
    seen: Callable[[int], None] = lambda _bytes: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Manifest:
    """Every byte is what was written, and the table makes sense. `seen` is told of bytes as they are read.

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
    if manifest.head.files is None:
        checked_table(manifest)
    else:
        table_of(manifest)
    for shard in manifest.head.shards:
        with reader.telling_absence(store, name):
            for block in content.stream(store, shard):
                seen(len(block))
    return manifest
