"""The bytes of many tensors, in order, through one small block of memory: what a shard's file is written from.

A save needs no memory but its blocks. They begin at a page, so that a store may write them past the page cache
(O_DIRECT), and as many as a save has open files are kept for the next one, because the first touch of fresh memory
costs as much as copying into it.

Where values lie back to back in memory (a staged snapshot), they are copied as one.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from app.checkpoint.shards.copying import SHORT_BYTES, address_of, copy_long, copy_short
from app.checkpoint.shards.pages import lasting
from app.checkpoint.storage.store import PARALLEL

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from app.checkpoint.codec import Blob

BLOCK_BYTES = 4 * 2**20
IN_PLACE_BYTES = 16 * 2**20
"""Of one piece that is written from where it lies: larger ones cost the processor less, and the disk no more."""
WORTH_IN_PLACE_BYTES = 2**20
_SECTOR_BYTES = 4096
_FIRST_BYTES = 2**18
"""A file's first piece is at least as long, by which the store sees that it is worth to be written past the cache."""

Piece = tuple[int, int, object]
"""Address and length of bytes in host memory, and what keeps them there."""


class Block:
    """Page-aligned memory."""

    def __init__(self) -> None:
        self._memory = lasting(BLOCK_BYTES)
        self.view = memoryview(self._memory)
        self.address = address_of(self._memory)


_kept = list[Block]()
os.register_at_fork(after_in_child=_kept.clear)


@contextmanager
def borrowed() -> Generator[Block]:
    """A block for one thread."""
    try:
        block = _kept.pop()
    except IndexError:
        block = Block()
    try:
        yield block
    finally:
        if len(_kept) < PARALLEL:
            _kept.append(block)


def stream(header: bytes, blobs: Iterable[Blob], *, in_place: bool = False) -> Iterator[memoryview]:
    """`header` and then each blob's bytes, in pieces of BLOCK_BYTES of which the last may be shorter.

    A piece is valid until the next one is asked for. `in_place`: nobody writes to the blobs' memory meanwhile, so that
    what lies in it as in the file, as far as sectors go, need not be copied: it comes in pieces of IN_PLACE_BYTES.
    """
    with borrowed() as block:
        at, base, begun = 0, block.address, False
        for address, size, _owner in chain([_of_bytes(header)], pieces(blobs)):
            if in_place and size >= WORTH_IN_PLACE_BYTES and (at - address) % _SECTOR_BYTES == 0:
                lead = -address % _SECTOR_BYTES
                lead += 0 if begun else max(0, _FIRST_BYTES - (at + lead))
                if at + lead <= BLOCK_BYTES:
                    copy_long(base + at, address, lead)
                    if at + lead:
                        yield block.view[: at + lead]
                    at, begun = (size - lead) % _SECTOR_BYTES, True
                    yield from _where_it_lies(address + lead, size - lead - at)
                    copy_short(base, address + size - at, at)
                    continue
            if size <= SHORT_BYTES and at + size < BLOCK_BYTES:
                copy_short(base + at, address, size)
                at += size
                continue
            done = 0
            while done < size:
                count = min(size - done, BLOCK_BYTES - at)
                copy_long(base + at, address + done, count)
                done += count
                at += count
                if at == BLOCK_BYTES:
                    yield block.view
                    at, begun = 0, True
        if at:
            yield block.view[:at]


def _where_it_lies(address: int, size: int) -> Iterator[memoryview]:
    for begin in range(0, size, IN_PLACE_BYTES):
        part = (ctypes.c_ubyte * min(IN_PLACE_BYTES, size - begin)).from_address(address + begin)
        yield memoryview(part).cast("B")


def pieces(blobs: Iterable[Blob]) -> Iterator[Piece]:
    """Row-major little-endian bytes of each blob, in order.

    In place where the value is contiguous in host memory; copies of at most BLOCK_BYTES at a time elsewhere. Neighbours
    in memory come as one.
    """
    begin, size, owners = 0, 0, list[object]()
    for blob in blobs:
        if blob.kind == "tensor":
            value = blob.value.detach()  # an alias: `parameter.data = ...` must not take the memory away in the middle
            if not (value.is_cpu and value.is_contiguous()) or value.is_neg() or value.is_conj():
                if size:
                    yield begin, size, owners
                size = 0
                yield from _copied(value)
                continue
            address, length = value.data_ptr(), value.nbytes
        else:
            address, length, value = _of_array(blob.value)
        if address == begin + size and size:
            size += length
            owners.append(value)
        elif length:
            if size:
                yield begin, size, owners
            begin, size, owners = address, length, [value]
    if size:
        yield begin, size, owners


def _copied(value: Any) -> Iterator[Piece]:
    for part in _parts(value):
        host = part.cpu().resolve_conj().resolve_neg().contiguous()
        yield host.data_ptr(), host.nbytes, host


def _parts(value: Any) -> Iterator[Any]:
    """Of a tensor, along its first dimensions, so that one after the other they are its row-major order."""
    if value.nbytes <= BLOCK_BYTES or value.dim() == 0:
        yield value
    elif len(value) == 1:
        yield from _parts(value[0])
    else:
        rows = max(1, BLOCK_BYTES * len(value) // value.nbytes)
        for part in value.split(rows):
            yield from _parts(part)


def _of_array(value: Any) -> Piece:
    import numpy as np

    array = np.ascontiguousarray(value)
    return array.__array_interface__["data"][0], array.nbytes, array


def _of_bytes(content: bytes) -> Piece:
    held = (ctypes.c_char * len(content)).from_buffer_copy(content)
    return ctypes.addressof(held), len(content), held
