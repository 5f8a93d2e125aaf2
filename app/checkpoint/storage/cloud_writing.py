"""What an upload to Cloud Storage reads from: a stream of chunks, counted and summed on its way, never held whole."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable


class Feed:
    """Chunks as the file that Google's client reads parts of an upload from, one after another."""

    def __init__(self, chunks: Iterable[memoryview]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self._ahead = b""
        self._sum = 0
        self.size = 0
        """Bytes that came out of the chunks so far."""

    @property
    def crc32c(self) -> str:
        """Of the same bytes, in eight hex digits."""
        return f"{self._sum:08x}"

    def fits_in(self, part_bytes: int) -> bool:
        """Whether everything is less than one part. The first `read` must ask for `part_bytes`, or for all of it."""
        self._ahead = self._take(part_bytes)
        return len(self._ahead) < part_bytes

    def read(self, size: int) -> bytes:
        """As much, unless it is the end."""
        part, self._ahead = self._ahead, b""
        return part or self._take(size)

    def tell(self) -> int:
        return self.size - len(self._ahead)

    def _take(self, size: int) -> bytes:
        part = io.BytesIO()
        while (room := size - part.tell()) > 0:
            if not self._rest.nbytes:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._rest = chunk.cast("B") if chunk.nbytes else memoryview(b"")
                continue
            taken = self._rest[:room]
            part.write(taken)
            self._sum = crc32c.crc32c(taken, self._sum)
            self._rest = self._rest[taken.nbytes :]
        self.size += part.tell()
        return part.getvalue()
