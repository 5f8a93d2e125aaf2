"""The bytes of one shard as a stream, summed on their way: the end is reached only if they are what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import crc32c

from app.checkpoint.shards.blocks import BLOCK_BYTES, borrowed
from app.checkpoint.shards.shard_reading import opened, read_exactly, refuse_more, refuse_other_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.checkpoint.manifest import Shard
    from app.checkpoint.storage.store import Store


def stream(store: Store, shard: Shard) -> Iterator[memoryview]:
    """Blocks of the shard, each valid until the next is asked for. What was taken before the end is not verified yet.

    Raises Damaged instead of ending, for another size or checksum; OSError, FileNotFoundError among them.
    """
    with opened(store, shard) as file, borrowed() as block:
        checksum = 0
        for begin in range(0, shard.size_bytes, BLOCK_BYTES):
            part = block.view[: min(BLOCK_BYTES, shard.size_bytes - begin)]
            read_exactly(file, part, shard)
            checksum = crc32c.crc32c(part, checksum)
            yield part
        refuse_more(file, shard)
    refuse_other_bytes(shard, checksum)
