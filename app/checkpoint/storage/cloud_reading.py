"""Reading one object of Cloud Storage: pieces of it by several requests at once, handed out in order.

One request brings a fraction of what the network card can; several bring it all. Pieces that were asked for and not yet
read are the only memory this takes: at most AHEAD of PIECE_BYTES.
"""

from __future__ import annotations

import errno
import io
import os
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    Fetch = Callable[[int, int], bytes]
    """Bytes from the first offset up to (not including) the second. Raises OSError."""

PIECE_BYTES = 8 * 2**20
AHEAD = 4
"""Pieces of one object that are on their way or waiting."""


@dataclass(frozen=True)
class _Piece:
    begin: int
    end: int
    content: Future[bytes]


class Ranges(io.RawIOBase):
    """An object of `size` bytes as a file. Nothing is fetched before the first read; a seek drops what is ahead."""

    def __init__(self, name: str, size: int, fetch: Fetch, executor: Callable[[], Executor]) -> None:
        super().__init__()
        self.name = name
        self._size = size
        self._fetch = fetch
        self._executor = executor
        self._position = 0
        self._asked = 0
        """Where the next piece begins."""
        self._pieces: deque[_Piece] = deque()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, f"Position {base + offset} is before the start", self.name)
        if base + offset != self._position:
            self._forget()
            self._position = self._asked = base + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self._position)
        wanted = bytearray(left if size is None or size < 0 else min(size, left))
        return bytes(wanted[: self.readinto(wanted)])

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]  # Buffer is 3.12's
        """Fills all of `buffer` unless the object ends before."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        wanted = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(wanted) and self._position < self._size:
            piece = self._next(len(wanted) - filled)
            wanted[filled : filled + len(piece)] = piece
            filled += len(piece)
            self._position += len(piece)
        return filled

    def close(self) -> None:
        self._forget()
        super().close()

    def _next(self, most: int) -> memoryview:
        """What comes at the position, up to `most` bytes."""
        while self._asked < self._size and len(self._pieces) < AHEAD:
            self._pieces.append(self._ask(self._asked, min(self._asked + PIECE_BYTES, self._size)))
        piece = self._pieces[0]
        content = piece.content.result()
        if len(content) != piece.end - piece.begin:
            came = f"{len(content)} of {piece.end - piece.begin} bytes came from offset {piece.begin}"
            raise OSError(errno.EIO, came, self.name)
        part = memoryview(content)[self._position - piece.begin :][:most]
        if self._position + len(part) == piece.end:
            self._pieces.popleft()
        return part

    def _ask(self, begin: int, end: int) -> _Piece:
        self._asked = end
        if self._pieces or end < self._size:
            return _Piece(begin, end, self._executor().submit(self._fetch, begin, end))
        alone = Future[bytes]()  # nothing to do beside it: without a thread
        alone.set_result(self._fetch(begin, end))
        return _Piece(begin, end, alone)

    def _forget(self) -> None:
        for piece in self._pieces:
            piece.content.cancel()
        self._pieces.clear()
