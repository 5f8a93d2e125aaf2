"""A store in a directory: a local disk, or a bucket mounted by gcsfuse.

The two differ in what makes bytes durable. On a disk: fsync of each file and of the directories above it, and a
hard link publishes a finished file under its final name. On a mount fsync proves nothing and links do not exist: an
object comes into being at `close`, whose error is therefore part of the write.

On a disk all that must be durable before a link is synced together, right before it (unsynced.py).
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from app.checkpoint.storage import files
from app.checkpoint.storage.medium import Medium, medium_of
from app.checkpoint.storage.store import STAGED, Entry, Written
from app.checkpoint.storage.unsynced import Unsynced, open_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STAGING = STAGED.removesuffix("/")
"""Below the root: documents on a disk before they are linked to their names, some half-written."""
STALE_S = 3600.0


class DirectoryStore:
    """Objects are files below `root`, which must exist: a missing mount must not turn into a directory in memory."""

    def __init__(self, root: Path, medium: Medium | None = None) -> None:
        self.root = root
        self.medium = medium or medium_of(root)
        self._unsynced = Unsynced()

    def list(self, prefix: str) -> list[Entry]:
        found = list[Entry]()
        self._walk(self.root / prefix, prefix, found)
        return sorted(found, key=lambda entry: entry.name)

    def open(self, name: str) -> BinaryIO:
        fd = os.open(self.root / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would be waited for
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise IsADirectoryError(errno.EISDIR, "It is no file", str(self.root / name))  # a device has no end
            return os.fdopen(fd, "rb", buffering=0)
        except OSError:
            os.close(fd)
            raise

    def create(self, name: str, chunks: Iterable[memoryview]) -> Written:
        path = self.root / name
        self._make_directory(path.parent)
        file = self._new(path, chunks)
        if self.medium is Medium.MOUNT:
            _close_object(path, file)
        else:
            self._unsynced.add_file(path, file)
            self._unsynced.add_directory(path.parent)
        return Written(file.size_bytes)

    def publish(self, name: str, content: bytes, last_look: Callable[[], None] | None = None) -> None:
        last_look = last_look or (lambda: None)
        path = self.root / name
        self._make_directory(path.parent)
        if self.medium is Medium.MOUNT:
            last_look()
            _close_object(path, self._new(path, [memoryview(content)]))
        else:
            if not self._link_new(path, content, last_look):
                files.sync_and_close(self._new(path, [memoryview(content)]).fd)
            files.sync_and_close(open_directory(path.parent))

    def replace(self, name: str, content: bytes) -> None:
        path = self.root / name
        self._make_directory(path.parent)
        if self.medium is Medium.MOUNT:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            os.close(files.fill(fd, [memoryview(content)]).fd)
        else:
            staged, fd = self._stage(path.name, content)
            os.close(fd)
            try:
                staged.replace(path)
            except OSError:
                _remove(staged)
                raise

    def delete(self, name: str) -> None:
        path = self.root / name
        self._unsynced.forget_file(path)
        with suppress(FileNotFoundError):
            path.unlink()
        with suppress(OSError):  # a shard directory goes with its last shard; on a bucket it never existed
            if self.root not in (path.parent, path.parent.parent):
                path.parent.rmdir()

    def _walk(self, directory: Path, prefix: str, found: list[Entry]) -> None:
        try:
            scan = os.scandir(directory)
        except FileNotFoundError:
            if not self.root.is_dir():
                raise
            return
        with scan:
            for item in scan:
                try:
                    if item.is_dir(follow_symlinks=False):
                        self._walk(directory / item.name, f"{prefix}{item.name}/", found)
                    else:
                        status = item.stat()
                        found.append(Entry(prefix + item.name, status.st_size, status.st_mtime))
                except FileNotFoundError:
                    continue  # deleted while listing
                except OSError as error:
                    if error.errno != errno.ELOOP:  # a link to itself leads to no object
                        raise

    def _new(self, path: Path, chunks: Iterable[memoryview]) -> files.Filled:
        file = files.fill(files.open_new(path, direct=self.medium is Medium.DISK), chunks)
        if self.medium is Medium.DISK:
            try:
                _compare(path, file)
            except OSError:
                os.close(file.fd)
                raise
        return file

    def _stage(self, name: str, content: bytes) -> tuple[Path, int]:
        """A new file below STAGING, whole but not synced, and its descriptor."""
        staging = self.root / STAGING
        self._make_directory(staging)
        staged = staging / f"{name}.{secrets.token_hex(8)}"
        try:
            file = self._new(staged, [memoryview(content)])
        except OSError:
            with suppress(OSError):  # on a full disk what killed attempts left there may be the room that is missing
                self._sweep_staging(staged.stat().st_mtime)
            _remove(staged)
            raise
        return staged, file.fd

    def _link_new(self, path: Path, content: bytes, last_look: Callable[[], None]) -> bool:
        """Publish by hard link; False where the file system has none."""
        staged, fd = self._stage(path.name, content)
        try:
            staged_at = os.fstat(fd).st_mtime
            self._unsynced.sync(fd)
            last_look()
            try:
                os.link(staged, path)
            except OSError as error:
                if error.errno in {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}:
                    return False
                raise
        finally:
            staged.unlink(missing_ok=True)
        self._sweep_staging(staged_at)
        return True

    def _sweep_staging(self, now_s: float) -> None:
        """Remove what killed attempts left there, by the file system's own clock."""
        with suppress(OSError):
            for left in (self.root / STAGING).iterdir():
                if now_s - left.stat().st_mtime > STALE_S:
                    left.unlink(missing_ok=True)

    def _make_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        if directory != self.root:
            self._make_directory(directory.parent)
        make_directory(directory)
        if self.medium is Medium.DISK:
            self._unsynced.add_directory(directory.parent)


def make_directory(directory: Path) -> None:
    """One that may be there already. Raises NotADirectoryError when something else has its place."""
    try:
        directory.mkdir(exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "A file has the place of this directory", str(directory)) from None


def _close_object(path: Path, file: files.Filled) -> None:
    """On a mount the upload ends here: its error is the write's, and only now does it say how much it holds."""
    os.close(file.fd)
    _compare(path, file)


def _compare(path: Path, file: files.Filled) -> None:
    if (size := path.stat().st_size) != file.size_bytes:
        raise OSError(errno.EIO, f"{file.size_bytes} bytes were written but the file holds {size}", str(path))


def _remove(half_written: Path) -> None:
    """On a full disk its bytes count; that it could not be written is told by another error."""
    with suppress(OSError):
        half_written.unlink()
