"""A directory tree in the making: written and verified beside its place, then put there by one rename.

So whatever is killed at any moment, the place holds nothing or all of it. What killed restores left beside it is
removed by the next one; a lock, which dies with its process, tells those from one that is under way.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.checkpoint.shards import content
from app.checkpoint.storage.files import sync_and_close
from app.checkpoint.storage.store import PARALLEL
from app.checkpoint.storage.unsynced import open_directory
from app.checkpoint.workers import at_once
from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from app.checkpoint.manifest import Shard
    from app.checkpoint.storage.store import Store
    from app.checkpoint.trees.table import File, TreeTable


def place_for(directory: Path) -> Path:
    """Where `directory` really lies, once that is known to be free. Raises Refusal."""
    place = Path(os.path.realpath(directory))
    with _telling(place):
        if os.path.lexists(place):
            if not place.is_dir():
                raise Refusal(f"{place} is not a directory, so no tree is restored there. Nothing was changed.")
            if any(place.iterdir()):
                raise _occupied(place)
            if place.is_mount():
                raise Refusal(
                    f"{place} is a mount point, and a tree is put in place by a rename, which cannot replace it. "
                    "Nothing was changed. Choose a directory below it."
                )
        place.parent.mkdir(parents=True, exist_ok=True)
        for left in place.parent.glob(f"{_prefix(place)}*"):
            _remove_unless_locked(left)
    return place


@dataclass(frozen=True)
class Unfinished:
    """A directory beside `place`, locked as long as this process lives."""

    place: Path
    path: Path
    lock: int

    @classmethod
    def beside(cls, place: Path) -> Unfinished:
        """Raises Refusal."""
        path = place.parent / f"{_prefix(place)}{secrets.token_hex(4)}"
        with _telling(path):
            path.mkdir()
            lock = open_directory(path)
            with suppress(OSError):  # a file system without locks: then nobody removes what is left there
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(place, path, lock)

    def fill(self, store: Store, shards: Sequence[Shard], table: TreeTable) -> None:
        """Everything, every byte verified. Raises Damaged, OSError (of the store), Refusal (of this side)."""
        with _telling(self.path):
            for directory in table.directories:
                (self.path / directory.path).mkdir(mode=0o700)
            for file in table.files:
                if not file.size_bytes:
                    self._finish(self._begin(file), file)
        parts = [[file for file in table.files if file.size_bytes and file.shard == i] for i in range(len(shards))]
        filling = [partial(self._fill_from, store, *each) for each in zip(shards, parts, strict=True)]
        at_once("shard", PARALLEL, filling)
        with _telling(self.path):
            for link in table.links:
                (self.path / link.path).symlink_to(link.target)
            for directory in reversed(table.directories):  # what lies in it first: that changes its time
                made = self.path / directory.path
                made.chmod(directory.mode)
                os.utime(made, ns=(directory.modified_ns, directory.modified_ns))
            sync_file_system(self.path)

    def put_in_place(self) -> None:
        """Raises Refusal when something has come there meanwhile."""
        with _telling(self.place):
            try:
                self.path.rename(self.place)
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    raise _occupied(self.place) from error
                raise
            with suppress(OSError):  # it is there; only a power cut could still undo it
                sync_and_close(open_directory(self.place.parent))
        os.close(self.lock)

    def abandon(self) -> None:
        _remove(self.path)
        os.close(self.lock)

    def _fill_from(self, store: Store, shard: Shard, files: Sequence[File]) -> None:
        """The table was checked: its files fill the shard."""
        blocks, block = content.stream(store, shard), memoryview(b"")
        for file in files:
            with _telling(self.path / file.path):
                fd = self._begin(file)
            left = file.size_bytes
            try:
                while left:
                    block = block or next(blocks)
                    with _telling(self.path / file.path):
                        count = os.write(fd, block[:left])
                    block, left = block[count:], left - count
            except BaseException:
                os.close(fd)
                raise
            with _telling(self.path / file.path):
                self._finish(fd, file)
        _exhaust(blocks)  # where the checksum is compared

    def _begin(self, file: File) -> int:
        return os.open(self.path / file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def _finish(self, fd: int, file: File) -> None:
        try:
            os.fchmod(fd, file.mode)
            os.utime(fd, ns=(file.modified_ns, file.modified_ns))
        finally:
            os.close(fd)


def _exhaust(blocks: Iterator[memoryview]) -> None:
    for _ in blocks:
        pass


def _prefix(place: Path) -> str:
    return f".{place.name}.restoring-"


def _remove_unless_locked(left: Path) -> None:
    with suppress(OSError):
        fd = open_directory(left)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(left)
        finally:
            os.close(fd)


def _remove(tree: Path) -> None:
    """As far as possible; directories that may not be written are made writable."""
    for folder, _, _ in os.walk(tree):
        with suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(tree, ignore_errors=True)


def _occupied(place: Path) -> Refusal:
    return Refusal(
        f"{place} is not empty, and a tree is only restored where nothing lies: two trees must not be mixed. Nothing "
        "was changed. Move what is there away, or restore into another directory."
    )


@contextmanager
def _telling(path: Path) -> Generator[None]:
    """Trouble on this side must not be taken for the checkpoint's: neither for damage nor for an absent object."""
    try:
        yield
    except OSError as error:
        raise Refusal(
            f"The tree cannot be restored to {path}: {error.strerror or error}. The checkpoint and what was there "
            "before are unchanged. Make room or choose another directory."
        ) from error


def sync_file_system(directory: Path) -> None:
    """syncfs(2): one call, where fsync of ten thousand small files takes a minute."""
    fd = open_directory(directory)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(directory))
    finally:
        os.close(fd)
