"""The table of a directory tree's manifest: each file's path, size, mode and place. Also what names it may hold.

A checkpoint is data from a bucket: a name in it must never lead out of the directory that is restored, whoever wrote
it. So names are checked when a tree is committed (what could not be restored is not announced) and when it is read.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from app.checkpoint.storage.store import Kinds, fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class File(NamedTuple):
    """A regular file. One of 0 bytes has no place: shard and begin are 0 and not looked at."""

    path: str
    """Relative, with "/" between its parts."""
    size_bytes: int
    mode: int
    """Permission bits only: no set-user-id, no sticky bit."""
    modified_ns: int
    """Unix time: some frameworks sort their checkpoints by it."""
    shard: int
    """Index in the head's list of shards."""
    begin: int
    """Its first byte in that shard."""


class Directory(NamedTuple):
    path: str
    mode: int
    modified_ns: int


class Link(NamedTuple):
    """A symbolic link that leads to another place in the tree."""

    path: str
    target: str
    """As the link says it: relative to the link's own directory."""


@dataclass(frozen=True)
class TreeTable:
    """A whole tree; a directory comes before what lies in it."""

    files: list[File] = field(default_factory=list[File])
    directories: list[Directory] = field(default_factory=list[Directory])
    links: list[Link] = field(default_factory=list[Link])

    def encode(self) -> bytes:
        parts = {"files": (File, self.files), "directories": (Directory, self.directories), "links": (Link, self.links)}
        table = {name: _columns(kind._fields, rows) for name, (kind, rows) in parts.items()}
        return json.dumps(table, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, content: bytes, shard_sizes: Sequence[int]) -> TreeTable:
        """Raises ValueError and RecursionError for what makes no sense or is not safe to restore."""
        found = fields_of(json.loads(content), dict.fromkeys(("files", "directories", "links"), (dict,)))
        table = cls(
            files=[File(*row) for row in _rows(found["files"], _FILE)],
            directories=[Directory(*row) for row in _rows(found["directories"], _DIRECTORY)],
            links=[Link(*row) for row in _rows(found["links"], _LINK)],
        )
        table.refuse_unsafe()
        _refuse_senseless(table, shard_sizes)
        return table

    def refuse_unsafe(self) -> None:
        """Raises ValueError, naming the path, for a name that cannot be restored safely on every file system."""
        seen = dict[str, str]()
        directories = {""}
        for each in chain(self.directories, self.files, self.links):
            _refuse_path(each.path)
            folded = each.path.casefold()
            if folded in seen:
                raise ValueError(f"{each.path!r} and {seen[folded]!r} would be the same where case does not count")
            seen[folded] = each.path
            if each.path.rpartition("/")[0] not in directories:
                raise ValueError(f"{each.path!r} lies in no directory of the tree")
            if isinstance(each, Directory):
                directories.add(each.path)
        for link in self.links:
            if not leads_inside(link):
                raise ValueError(f"the link {link.path!r} leads to {link.target!r}, outside of the tree")


def leads_inside(link: Link) -> bool:
    """Whether following the link can never leave the tree: first up to a directory of it, then only down.

    Going up after going down is refused: what lies below may be a link itself, and "up" from there is elsewhere.
    """
    parts = link.target.split("/")
    ups = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    down = parts[ups:]
    return ups <= link.path.count("/") and bool(down) and not {"", ".", ".."} & set(down) and "\0" not in link.target


def _refuse_path(path: str) -> None:
    if {"", ".", ".."} & set(path.split("/")) or "\0" in path:
        raise ValueError(f"{path[:200]!r} is not a path within a tree")
    os.fsencode(path)  # a UnicodeEncodeError is a ValueError


def _columns(names: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


_FILE: Kinds = {"path": (str,)} | dict.fromkeys(File._fields[1:], (int,))
_DIRECTORY: Kinds = {"path": (str,), "mode": (int,), "modified_ns": (int,)}
_LINK: Kinds = {"path": (str,), "target": (str,)}


def _rows(found: dict[str, Any], kinds: Kinds) -> list[tuple[Any, ...]]:
    fields = fields_of(found, dict.fromkeys(kinds, (list,)))
    for name, (kind,) in kinds.items():
        if odd := [value for value in fields[name] if type(value) is not kind]:
            raise ValueError(f"a {name} is {str(odd[0])[:80]!r}")
    return list(zip(*(fields[name] for name in kinds), strict=True))


_NEVER_NS = 2**62
"""Farther from 1970 than any file system's time."""


def _refuse_senseless(table: TreeTable, shard_sizes: Sequence[int]) -> None:
    for each in chain(table.files, table.directories):
        if not 0 <= each.mode <= 0o777 or not abs(each.modified_ns) < _NEVER_NS:
            raise ValueError(f"{each.path!r} has mode {each.mode:o} and was modified at {each.modified_ns}")
    ends = [0] * len(shard_sizes)
    for file in table.files:
        if file.size_bytes == 0:
            continue
        if file.size_bytes < 0 or not 0 <= file.shard < len(ends) or file.begin != ends[file.shard]:
            raise ValueError(f"{file.path!r} has {file.size_bytes} bytes at {file.begin} of shard {file.shard}")
        ends[file.shard] += file.size_bytes
    if ends != list(shard_sizes):
        raise ValueError(f"its files fill {ends} bytes of shards that hold {list(shard_sizes)}")
