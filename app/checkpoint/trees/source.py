"""A directory that is about to be committed: what lies in it, its bytes, and whether it stayed the same meanwhile.

The proof of "stayed the same" is size, mode, mtime and ctime of everything, looked at before the first byte is read and
again after the last. The first look waits until the newest of these times is past the file system's tick, so that any
later write shows. (A write through a memory mapping that is older than the first look may not.)
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.checkpoint.codec import Unsavable
from app.checkpoint.shards.blocks import BLOCK_BYTES, borrowed
from app.checkpoint.shards.layout import SHARD_BYTES
from app.checkpoint.trees.looking import Seen, TreeChanged, look, seen_at
from app.checkpoint.trees.table import Directory, File, Link, TreeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

LARGE_BYTES = 64 * 2**20
"""A file of so many bytes gets an object of its own; smaller ones share objects of up to SHARD_BYTES."""
TICK_S = 0.02
"""No file system clock that is in use here is coarser (a kernel tick is 1 to 10 ms)."""


@dataclass(frozen=True)
class Source:
    """One look at a directory. Paths are relative to `root` and sorted, so a directory comes before its content."""

    root: Path
    seen: dict[str, Seen]
    groups: list[list[str]] = field(default_factory=list[list[str]])
    """Paths of the files that each shard holds, in order."""

    @classmethod
    def settled(cls, root: Path, sleep: Callable[[float], None] = time.sleep) -> Source:
        """A look after which no change goes unseen. Raises OSError, and Unsavable with the path of what cannot be."""
        seen = look(root)
        newest_s = max((each.changed_ns for each in seen.values()), default=0) / 1e9
        if time.time() - newest_s < TICK_S:
            sleep(TICK_S)
            seen = look(root)
        return cls(root, seen, _grouped(seen))

    def table(self) -> TreeTable:
        """Raises Unsavable for names that could not be restored."""
        places = dict[str, tuple[int, int]]()
        for shard, group in enumerate(self.groups):
            begin = 0
            for path in group:
                places[path] = shard, begin
                begin += self.seen[path].size_bytes
        table = TreeTable()
        for path, each in self.seen.items():
            if stat.S_ISDIR(each.mode):
                table.directories.append(Directory(path, each.permissions, each.modified_ns))
            elif stat.S_ISLNK(each.mode):
                table.links.append(Link(path, each.target))
            else:
                place = places.get(path, (0, 0))
                table.files.append(File(path, each.size_bytes, each.permissions, each.modified_ns, *place))
        try:
            table.refuse_unsafe()
        except ValueError as error:
            raise Unsavable(f"{self.root}: {error}. Rename it, or keep it out of the directory.") from error
        return table

    def blocks(self, group: Sequence[str]) -> Iterator[memoryview]:
        """The bytes of these files one after the other, in blocks of BLOCK_BYTES. Raises OSError, TreeChanged."""
        with borrowed() as whole:
            block, filled = whole.view[:BLOCK_BYTES], 0
            for path in group:
                fd = self._open(path)
                try:
                    left = self.seen[path].size_bytes
                    while left:
                        count = os.readv(fd, [block[filled : filled + left]])
                        if not count:
                            raise self._changed(path)
                        filled, left = filled + count, left - count
                        if filled == len(block):
                            yield block
                            filled = 0
                    if os.read(fd, 1) or self._now(path, fd) != self.seen[path]:
                        raise self._changed(path)
                finally:
                    os.close(fd)
            if filled:
                yield block[:filled]

    def refuse_if_changed(self) -> None:
        """A second look at everything. Raises TreeChanged, OSError."""
        now = look(self.root)
        if now != self.seen:
            paths = sorted(path for path in now.keys() | self.seen.keys() if now.get(path) != self.seen.get(path))
            raise self._changed(paths[0])

    def _open(self, path: str) -> int:
        try:
            # Not blocking: what was a file may be a pipe by now.
            fd = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ELOOP}:
                raise self._changed(path) from None
            raise
        with suppress(OSError):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        if self._now(path, fd) != self.seen[path]:
            os.close(fd)
            raise self._changed(path)
        return fd

    def _now(self, path: str, fd: int) -> Seen:
        return seen_at(os.fstat(fd), self.root / path)

    def _changed(self, path: str) -> TreeChanged:
        return TreeChanged(
            f"{self.root / path} changed while the directory was being committed, so nothing was announced; earlier "
            "checkpoints are safe. Commit when the program has finished writing (in a callback after its own save)."
        )


def _grouped(seen: dict[str, Seen]) -> list[list[str]]:
    """Files with content, in shards."""
    groups, packed, room = list[list[str]](), list[str](), 0
    for path, each in seen.items():
        if not stat.S_ISREG(each.mode) or not each.size_bytes:
            continue
        if each.size_bytes >= LARGE_BYTES:
            groups.append([path])
            continue
        if each.size_bytes > room:
            packed, room = list[str](), SHARD_BYTES
            groups.append(packed)
        packed.append(path)
        room -= each.size_bytes
    return groups
