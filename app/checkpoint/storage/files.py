"""Bytes into one open file: past the page cache where that is possible, and every error of write and close told.

O_DIRECT takes memory, offset and length in whole sectors. Blocks of the engine are (shards/blocks.py); the end of a
file is padded and then cut to its true size. What cannot be written so goes through the page cache like any other
write.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.checkpoint.shards.copying import address_of
from app.checkpoint.workers import at_once

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SECTOR_BYTES = 4096
"""No file system asks for more; what asks for it all the same gets a buffered write."""
WORTH_DIRECT_BYTES = 256 * 2**10
"""A smaller file is written once and synced: the page cache costs it nothing."""
SYNCS_AT_ONCE = 8
_NOT_DIRECT = {errno.EINVAL, errno.EOPNOTSUPP, errno.EFAULT}
"""The last where a driver's memory, which a device copied to, cannot be lent to the disk."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def open_new(path: Path, *, direct: bool) -> int:
    """A descriptor of a file that was not there. Raises FileExistsError."""
    if direct:
        try:
            return os.open(path, _NEW | os.O_DIRECT, 0o644)
        except OSError as error:
            if error.errno not in _NOT_DIRECT:
                raise
            with suppress(FileNotFoundError):  # some file systems make the file before they refuse
                path.unlink()
    return os.open(path, _NEW, 0o644)


@dataclass(frozen=True)
class Filled:
    """An open file that was just written from start to end."""

    fd: int
    size_bytes: int
    cached_bytes: int
    """How many of them went through the page cache, and may still be there only."""


def fill(fd: int, chunks: Iterable[memoryview]) -> Filled:
    """Write all of it. If that fails the descriptor is closed."""
    try:
        out = _Out(fd)
        for chunk in chunks:
            out.write(chunk.cast("B"))
        out.end()
    except BaseException:
        with suppress(OSError):
            os.close(fd)
        raise
    return Filled(fd, out.written, out.cached)


def sync_and_close(*fds: int) -> None:
    """All at once: disks and journals then do for all of them what each alone would wait for. Every one is closed."""
    at_once("sync", SYNCS_AT_ONCE, [partial(_sync_and_close, fd) for fd in fds])


def _sync_and_close(fd: int) -> None:
    try:
        os.fsync(fd)
    except BaseException:
        with suppress(OSError):
            os.close(fd)
        raise
    os.close(fd)


class _Out:
    """Writes past the page cache as long as that goes, and by it from then on."""

    def __init__(self, fd: int) -> None:
        self.written = 0
        """Bytes of the content. The file is longer while `_padded`."""
        self.cached = 0
        self._fd = fd
        self._direct = bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)
        self._padded = False

    def write(self, chunk: memoryview) -> None:
        rest = chunk
        if self._direct and chunk.nbytes:
            small = not self.written and chunk.nbytes < WORTH_DIRECT_BYTES
            if self._padded or small or not _at_a_sector(chunk):
                self._through_the_cache()
            else:
                rest = self._past_the_cache(chunk)
        while rest.nbytes:
            count = os.write(self._fd, rest)
            self.written += count
            self.cached += count
            rest = rest[count:]

    def end(self) -> None:
        """The file is as long as its content from now on."""
        if self._padded:
            os.ftruncate(self._fd, self.written)
            self._padded = False

    def _past_the_cache(self, chunk: memoryview) -> memoryview:
        """What of it is still to be written."""
        odd = chunk.nbytes % SECTOR_BYTES
        rest, tail = chunk[: chunk.nbytes - odd], chunk[chunk.nbytes - odd :]
        while rest.nbytes:
            count = self._try(rest)
            self.written += count
            rest = rest[count:]
            if not self._direct:
                return chunk[chunk.nbytes - odd - rest.nbytes :]
        if odd:
            page = memoryview(mmap.mmap(-1, SECTOR_BYTES))
            page[:odd] = tail
            if self._try(page) == SECTOR_BYTES:
                self.written += odd
                self._padded = True
                return chunk[:0]
            self._through_the_cache()
        return tail

    def _try(self, sectors: memoryview) -> int:
        """Bytes written; fewer, and no longer past the cache, if the file system will not."""
        try:
            count = os.write(self._fd, sectors)
        except OSError as error:
            if error.errno not in _NOT_DIRECT:
                raise
            count = 0
        if count % SECTOR_BYTES or not count:
            self._through_the_cache(count)
        return count

    def _through_the_cache(self, ahead: int = 0) -> None:
        self.end()
        self._direct = False
        fcntl.fcntl(self._fd, fcntl.F_SETFL, fcntl.fcntl(self._fd, fcntl.F_GETFL) & ~os.O_DIRECT)
        os.lseek(self._fd, self.written + ahead, os.SEEK_SET)


def _at_a_sector(chunk: memoryview) -> bool:
    return not chunk.readonly and address_of(chunk) % SECTOR_BYTES == 0
