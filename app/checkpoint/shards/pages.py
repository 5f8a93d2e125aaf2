"""Memory in whole pages from the kernel, huge ones where they help, gone with the last use.

Bytes that are read come in gigabytes once and are touched once: with pages of 4 KiB the faults cost more than the copy.
Memory of its own mapping goes back to the system as soon as the last tensor over it is gone.

What bytes are written from is touched again and again, and the disk reads it (O_DIRECT): in huge pages that costs a
fifth of the kernel's time, as each page is looked up for each write.
"""

from __future__ import annotations

import mmap
from contextlib import suppress

from app.checkpoint.shards.safetensors_file import ALIGNMENT_BYTES

HUGE_BYTES = 2 * 2**20
_WIPE_ON_FORK = 18
_POPULATE_WRITE = 23
"""madvise(2), since Linux 4.14 and 5.14; the module `mmap` has no names for them."""
TOUCHED_BYTES = 16 * HUGE_BYTES
"""At a time: madvise keeps the interpreter, and a signal that arrives meanwhile must reach the saver's thread. All of
1 GiB at once kept it for 2.5 s on a virtual machine."""
ARENA_BYTES = 4 * HUGE_BYTES
"""Small tensors share mappings of this size, so one that is kept for long holds no more than that."""


def fresh(size_bytes: int) -> mmap.mmap:
    """Zeroed, page-aligned, private to this process. Raises MemoryError."""
    pages = fresh_in_small_pages(size_bytes)
    if size_bytes >= HUGE_BYTES:
        with suppress(OSError):  # a kernel without huge pages has small ones
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def fresh_in_small_pages(size_bytes: int) -> mmap.mmap:
    """The same, for a thread beside one that imports: while a huge page is made, which takes a virtual machine a
    millisecond, another thread's mmap waits. Reading 1 GiB ahead kept `import torch` for 1.5 s so, and now for 0.1 s.

    Raises MemoryError.
    """
    try:
        return mmap.mmap(-1, max(1, size_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size_bytes} bytes for a checkpoint's tensors: {error}") from error


def lasting(size_bytes: int) -> mmap.mmap:
    """To be written from: touched here, and no child's. Raises OSError, MemoryError.

    A private page must not be forked while the disk reads it: a child that writes to it might be given the page itself.
    So a child finds zeros there; where the kernel cannot do that, memory is shared with it instead, in small pages.
    """
    try:
        memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(_WIPE_ON_FORK)
    except OSError:
        memory = mmap.mmap(-1, size_bytes)
    with suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    with suppress(OSError):  # an older kernel touches them when they are written to
        for begin in range(0, size_bytes, TOUCHED_BYTES):
            memory.madvise(_POPULATE_WRITE, begin, min(TOUCHED_BYTES, size_bytes - begin))
    return memory


def give_back(pages: mmap.mmap, begin: int, end: int) -> None:
    """The whole pages between are not needed any more; what is around them stays."""
    first, last = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        pages.madvise(mmap.MADV_DONTNEED, first, last - first)


class Arena:
    """Gives parts of shared mappings; a large part has a mapping of its own."""

    def __init__(self, expected_bytes: int) -> None:
        """`expected_bytes`: no more will be asked for, so that little is taken for little."""
        self._left = expected_bytes
        self._pages: mmap.mmap | None = None
        self._used = 0

    def take(self, size_bytes: int, like: int = 0) -> tuple[mmap.mmap, int]:
        """Mapping and offset of `size_bytes`, which begin as far behind a multiple of 64 as `like` does."""
        shift = like % ALIGNMENT_BYTES
        if size_bytes >= HUGE_BYTES:
            self._left -= size_bytes
            return fresh(size_bytes + shift), shift
        begin = -(-self._used // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + shift
        if self._pages is None or begin + size_bytes > len(self._pages):
            self._pages = fresh(max(size_bytes + shift, min(ARENA_BYTES, self._left + 2 * ALIGNMENT_BYTES)))
            begin = shift
        self._used = begin + size_bytes
        self._left -= size_bytes
        return self._pages, begin
