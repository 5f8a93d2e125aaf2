"""One look at a directory: everything in it that a checkpoint can hold, and what tells whether it changed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from app.checkpoint.codec import Unsavable
from app.checkpoint.trees.table import Link, leads_inside

if TYPE_CHECKING:
    from pathlib import Path


class TreeChanged(Exception):  # noqa: N818 - what happened
    """The directory changed while it was read: a commit would hold a mixture. Nothing was announced."""


class Seen(NamedTuple):
    """What one look said about an entry."""

    mode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int
    target: str = ""

    @property
    def permissions(self) -> int:
        return self.mode & 0o777


def look(root: Path) -> dict[str, Seen]:
    """Everything below `root`, in order of paths. Raises OSError, Unsavable."""
    found = dict[str, Seen]()
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            for item in (root / folder).iterdir():
                path = f"{folder}/{item.name}" if folder else item.name
                found[path] = seen_at(item.lstat(), item, root)
                if stat.S_ISDIR(found[path].mode):
                    folders.append(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            if folder or error.filename != str(root):
                raise TreeChanged(
                    f"{error.filename} vanished while {root} was looked at. Nothing was written."
                ) from None
            raise
    return dict(sorted(found.items(), key=lambda each: each[0].split("/")))


def seen_at(status: os.stat_result, path: Path, root: Path | None = None) -> Seen:
    """What `status` says of `path`; a link counts only where `root` is given. Raises Unsavable."""
    kind = stat.S_IFMT(status.st_mode)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    if kind == stat.S_IFDIR:
        return Seen(status.st_mode, 0, *times)
    if kind == stat.S_IFREG:
        return Seen(status.st_mode, status.st_size, *times)
    if kind == stat.S_IFLNK and root is not None:
        target = os.readlink(path)  # noqa: PTH115 - as it is written, not normalised
        if leads_inside(Link(str(path.relative_to(root)), target)):
            return Seen(status.st_mode, 0, *times, target)
        raise Unsavable(
            f"{path} is a symbolic link to {target}, which leads out of the directory or is not a plain relative path "
            "in it. Its target would not be part of the checkpoint: replace the link by a copy."
        )
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    raise Unsavable(f"{path} is a {kinds.get(kind, 'file of unknown kind')}, which no checkpoint can hold. Remove it.")
