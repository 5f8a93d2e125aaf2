"""Whether a session's state would load, found out without memory for it: what `reader.load` looks at besides bytes."""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING, Any, cast

from app.checkpoint import codec, reader
from app.checkpoint.manifest import Damaged
from app.checkpoint.shards import values
from app.checkpoint.shards.safetensors_file import LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from app.checkpoint.manifest import Manifest, Shard
    from app.checkpoint.shards.shard_plan import Extent
    from app.checkpoint.table import Place, Table

_NORESERVE = 0x4000
"""Linux's MAP_NORESERVE, for which Python's mmap has no name: memory that is not used need not be there."""


def of(manifest: Manifest) -> list[list[Extent]]:
    """What lies in each of its shards. Needs torch or numpy, as the state does. Raises Damaged, Unsupported."""
    table, extents = reader.sensibly(lambda: reader.understood(manifest))
    for shard, rows in zip(manifest.head.shards, extents, strict=True):
        _refuse_beyond(shard, rows, 0, 0)  # before memory is asked for, even if it is never touched
    reader.sensibly(lambda: _decode(table.tree, _stand_ins(table, extents)))
    return extents


def refuse_misplaced(shard: Shard, rows: Sequence[Extent], length: bytes) -> None:
    """`length`: the first bytes of the shard, which say where its data section begins. Raises Damaged."""
    try:
        (header_bytes,) = LENGTH.unpack(length)
    except struct.error as error:
        raise Damaged(f"shard {shard.name} is not as its manifest says: {error}") from error
    _refuse_beyond(shard, rows, LENGTH.size + header_bytes, LENGTH.size)


def _refuse_beyond(shard: Shard, rows: Sequence[Extent], data: int, at: int) -> None:
    """As the reader's plan of a shard does (shard_plan.py)."""
    for begin, size, row in sorted(rows):
        if data + begin < at or data + begin + size > shard.size_bytes:
            raise Damaged(
                f"shard {shard.name} is not as its manifest says: row {row} of the table overlaps another or ends "
                "behind its shard"
            )
        at = data + begin + size


def _stand_ins(table: Table, extents: Sequence[Sequence[Extent]]) -> Callable[[int], Any]:
    """A tensor or array for each row, all over the same memory, which nobody touches; alike ones are one."""
    most = max((extent.size for rows in extents for extent in rows), default=1)
    memory = mmap.mmap(-1, most, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    made = dict[tuple[object, ...], Any]()

    def stand_in(index: int) -> Any:
        place: Place = table.places[index]
        form = place.kind, place.dtype, place.shape
        if form not in made:
            made[form] = values.over(place, memory, 0) if values.size_bytes(*form) else values.empty(place)
        return made[form]

    return stand_in


def _decode(tree: Any, blob: Callable[[int], Any]) -> None:
    try:
        codec.decode(tree, blob)
    except (codec.NotRegistered, codec.ClassChanged):  # of a class that its own program knows: all else must be sound
        parts: Iterable[Any] = cast("dict[str, Any]", tree).values() if isinstance(tree, dict) else tree
        for part in parts:
            _decode(part, blob)
