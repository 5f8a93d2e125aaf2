"""One shard's bytes from the store to where they belong, summed on their way while the core still has them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import crc32c

from app.checkpoint.manifest import Damaged
from app.checkpoint.shards import pages
from app.checkpoint.shards.copying import address_of, copy_apart, copy_long

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from mmap import mmap

    from app.checkpoint.manifest import Shard
    from app.checkpoint.shards.shard_plan import Piece
    from app.checkpoint.storage.store import Store


@contextmanager
def opened(store: Store, shard: Shard) -> Generator[BinaryIO]:
    """From its start, if it has the size that its manifest says. Raises Damaged, OSError."""
    try:
        file = store.open(shard.name)
    except ValueError as error:  # no file can have that name
        raise Damaged(f"shard {shard.name!r}: {error}") from error
    with file:
        present = file.seek(0, os.SEEK_END)
        if present != shard.size_bytes:  # before so much memory is asked for
            raise Damaged(f"shard {shard.name} holds {present} bytes, its manifest says {shard.size_bytes}")
        file.seek(0)
        yield file


def read_exactly(file: BinaryIO, memory: memoryview, shard: Shard) -> None:
    """Raises Damaged when the file ends before, OSError."""
    filled = 0
    while filled < memory.nbytes:
        count = cast("Any", file).readinto(memory[filled:] if filled else memory)
        if not count:
            raise Damaged(f"shard {shard.name} ends before its {shard.size_bytes} bytes")
        filled += count


def refuse_more(file: BinaryIO, shard: Shard) -> None:
    """`file` was read to where it should end. Raises Damaged, OSError."""
    if file.read(1):
        raise Damaged(f"shard {shard.name} is longer than {shard.size_bytes} bytes")


def refuse_other_bytes(shard: Shard, checksum: int) -> None:
    """`checksum` is over all that was read. Raises Damaged."""
    if f"{checksum:08x}" != shard.crc32c:
        raise Damaged(f"shard {shard.name} has crc32c {checksum:08x}, its manifest says {shard.crc32c}")


def read_pieces(file: BinaryIO, shard: Shard, pieces: Sequence[Piece], checksum: int = 0) -> int:
    """These consecutive pieces, from where the file is, to where they belong.

    Returns the crc32c of all, which goes on from `checksum`. Raises Damaged, OSError.
    """
    block = memoryview(bytearray(max((piece.size for piece in pieces if piece.memory is None), default=0)))
    for piece in pieces:
        memory = block[: piece.size] if piece.memory is None else piece.memory
        read_exactly(file, memory, shard)
        checksum = crc32c.crc32c(memory, checksum)
        if piece.scattered:
            _scatter(address_of(memory), piece)
    if pieces and pieces[-1].end == shard.size_bytes:
        refuse_more(file, shard)
    return checksum


def copy_pieces(ready: mmap, pieces: Sequence[Piece]) -> None:
    """From a file that is in memory already, and was summed there; what was copied is given back."""
    source = address_of(ready)
    for piece in pieces:
        if piece.memory is not None:
            copy_long(address_of(piece.memory), source + piece.begin, piece.size)
        _scatter(source + piece.begin, piece)
        pages.give_back(ready, piece.begin, piece.end)


def _scatter(source: int, piece: Piece) -> None:
    """`source`: address of the piece's bytes."""
    for offset, size, count, address, stride in piece.scattered:
        copy_apart(address, stride, source + offset, size, count)
