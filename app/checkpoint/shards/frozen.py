"""Shards that a later checkpoint may refer to instead of writing the same bytes again.

Only those of a committed checkpoint that this attempt loaded or wrote: their bytes were verified or summed by it. They
are looked for again when a manifest that refers to them is about to be published, and once more when it is.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.checkpoint.manifest import Head, Shard
    from app.checkpoint.storage.store import Store

SIZE_ONLY, BY_STORE = "size", "size+crc32c"
"""Which proof of durability a writer had; the weakest of a checkpoint's shards is in its head."""


@dataclass(frozen=True)
class WrittenShard:
    shard: Shard
    by_store: bool
    """The store's own checksum was there to agree."""


class Vanished(Exception):  # noqa: N818 - the save goes on with what is missing written
    """A shard that an earlier checkpoint wrote is not there any more, or not of its size."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


@dataclass
class Known:
    """The shards of the newest checkpoint that the attempt loaded or wrote, by size and checksum."""

    _shards: dict[tuple[int, str], WrittenShard] = field(default_factory=dict[tuple[int, str], WrittenShard])

    def learn(self, head: Head) -> None:
        """`head` is committed. It refers to every frozen shard that still is one, so those before it are forgotten."""
        by_store = head.checked == BY_STORE
        self._shards = {(shard.size_bytes, shard.crc32c): WrittenShard(shard, by_store) for shard in head.shards}

    def sizes(self) -> set[int]:
        return {size for size, _ in self._shards}

    def find(self, size_bytes: int, crc32c: str) -> WrittenShard | None:
        return self._shards.get((size_bytes, crc32c))

    def forget(self, names: frozenset[str]) -> None:
        self._shards = {key: each for key, each in self._shards.items() if each.shard.name not in names}


def look(store: Store, referenced: Iterable[Shard]) -> None:
    """Raises Vanished if one of them is gone or of another size, and OSError."""
    wanted = {shard.name: shard.size_bytes for shard in referenced}
    folders = {name.rpartition("/")[0] + "/" for name in wanted}
    present = {entry.name: entry.size_bytes for folder in folders for entry in store.list(folder)}
    if gone := frozenset(name for name, size in wanted.items() if present.get(name) != size):
        raise Vanished(gone)


def vanished_after_all(manifest_name: str, gone: Vanished) -> OSError:
    return OSError(
        errno.ENOENT,
        f"a shard of an earlier checkpoint vanished while {manifest_name} referred to it; that was taken back, the "
        "checkpoints before are as they were, and the next save writes the shard again. Does another execution prune "
        "this line?",
        str(gone),
    )
