"""What was written to a disk and is not durable yet: kept open, so that all of it is synced together.

Each fsync may wait for a commit of the file system's journal and a flush of the disk, which takes as long as writing
megabytes; several at once wait for about one. Descriptors stay open until then, so no error of the disk gets lost.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from app.checkpoint.storage import files

if TYPE_CHECKING:
    from collections.abc import Iterable

LATER_BYTES = 2**20
"""A file with more in the page cache than this is synced by the thread that wrote it."""
OPEN_FILES = 64
"""So many wait for their sync at most."""


class Unsynced:
    """For several threads."""

    def __init__(self) -> None:
        self._files = dict[Path, int]()
        """With their descriptors; their bytes are on the disk but for few."""
        self._directories = set[Path]()
        """With names that are not durable yet."""
        self._lock = threading.Lock()

    def add_file(self, path: Path, file: files.Filled) -> None:
        """Its descriptor is not the caller's any more. Raises OSError."""
        if file.cached_bytes > LATER_BYTES or len(self._files) >= OPEN_FILES:
            files.sync_and_close(file.fd)
        else:
            with self._lock:
                self._files[path] = file.fd

    def add_directory(self, path: Path) -> None:
        """A name in it is new."""
        with self._lock:
            self._directories.add(path)

    def forget_file(self, path: Path) -> None:
        """It is to be deleted. Raises OSError."""
        with self._lock:
            fd = self._files.pop(path, None)
        if fd is not None:
            os.close(fd)

    def sync(self, fd: int) -> None:
        """All of it, and this file, which is closed then. Raises OSError: directories are synced again next time."""
        with self._lock:
            waiting, self._files = list(self._files.values()), {}
            directories, self._directories = self._directories, set()
        try:
            files.sync_and_close(*self._opened(directories, [fd, *waiting]))
        except BaseException:
            with self._lock:
                self._directories |= directories
            raise

    @staticmethod
    def _opened(directories: Iterable[Path], fds: list[int]) -> list[int]:
        """`fds` and those of the directories; all are closed when that fails."""
        try:
            for directory in directories:
                with suppress(FileNotFoundError):  # a failed save's, removed since
                    fds.append(open_directory(directory))
        except BaseException:
            for fd in fds:
                with suppress(OSError):
                    os.close(fd)
            raise
        return fds


def open_directory(directory: Path) -> int:
    """A descriptor to sync or to lock it."""
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
