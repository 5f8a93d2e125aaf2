"""The limits of the machine: what copying, writing and reading the bytes costs when nothing else is done with them."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

CHUNK_BYTES = 2**20
"""Steadiest here: writes of 16 MiB took up to three times the CPU, for pages that the cache could not find at once."""
VERSION = f"Linux {platform.release().split('-')[0]}"
MEMCPY = f"memcpy, one thread (numpy {np.__version__})"
WRITE = f"write, one stream ({VERSION})"
WRITE_FSYNC = f"write + fsync, one stream ({VERSION})"
READ = f"read, one stream ({VERSION})"


class Buffer:
    """Bytes that are no zeros, and room of the same size that was touched already."""

    def __init__(self, size_bytes: int) -> None:
        block = np.random.default_rng(0).integers(0, 256, min(size_bytes, 2**20), dtype=np.uint8)
        self._source = np.resize(block, size_bytes)
        self._target = np.ones(size_bytes, dtype=np.uint8)

    def memcpy(self) -> None:
        np.copyto(self._target, self._source)

    def write(self, path: Path, *, fsync: bool) -> None:
        view = memoryview(cast("Any", self._source))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            for begin in range(0, len(view), CHUNK_BYTES):
                rest = view[begin : begin + CHUNK_BYTES]
                while rest.nbytes:
                    rest = rest[os.write(fd, rest) :]
            if fsync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: Path) -> None:
        """Into memory that exists: the least that a restore into existing tensors can do."""
        view = memoryview(cast("Any", self._target))
        with path.open("rb", buffering=0) as file:
            filled = 0
            while filled < len(view) and (count := file.readinto(view[filled : filled + CHUNK_BYTES])):
                filled += count
        if filled != len(view):
            raise OSError(f"{path} holds {filled} bytes, not {len(view)}")
