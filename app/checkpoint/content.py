"""The bytes of one shard as a stream, summed on their way: the end is reached only if they are what was written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import crc32c

from app.checkpoint.manifest import Damaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.checkpoint.manifest import Shard
    from app.checkpoint.store import Store

BLOCK_BYTES = 4 * 2**20


def stream(store: Store, shard: Shard) -> Iterator[memoryview]:
    """Blocks of the shard, each valid until the next is asked for. What was taken before the end is not verified yet.

    Raises Damaged instead of ending, for another size or checksum; OSError, FileNotFoundError among them.
    """
    try:
        file = store.open(shard.name)
    except ValueError as error:  # no object can have that name
        raise Damaged(f"shard {shard.name!r}: {error}") from error
    with file:
        present = file.seek(0, os.SEEK_END)
        if present != shard.size_bytes:
            raise Damaged(f"shard {shard.name} holds {present} bytes, its manifest says {shard.size_bytes}")
        file.seek(0)
        block = memoryview(bytearray(min(BLOCK_BYTES, shard.size_bytes)))
        done, checksum = 0, 0
        while done < shard.size_bytes:
            count = cast("Any", file).readinto(block[: shard.size_bytes - done])
            if not count:
                raise Damaged(f"shard {shard.name} ends after {done} of {shard.size_bytes} bytes")
            checksum = crc32c.crc32c(block[:count], checksum)
            done += count
            yield block[:count]
        if file.read(1):
            raise Damaged(f"shard {shard.name} is longer than {shard.size_bytes} bytes")
    if f"{checksum:08x}" != shard.crc32c:
        raise Damaged(f"shard {shard.name} has crc32c {checksum:08x}, its manifest says {shard.crc32c}")
