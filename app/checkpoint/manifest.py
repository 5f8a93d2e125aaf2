"""The manifest: the one document whose existence makes a checkpoint. Its format, and telling torn from damaged.

Three lines of JSON. The first, the seal, holds the format version, the byte lengths of the other two and a crc32c over
all of it; the second, the head, is small and says which shards with which sizes and checksums hold the bytes, whose
state it is and where it was made; the third, the table, is the state's tree with the place of every tensor. Choosing
a checkpoint parses the head only.

A manifest *shorter* than its seal promises was cut by a kill in mid-write: it is torn, and a torn manifest was never a
commit. One of full length whose checksum is wrong, or whose seal is unreadable, is damaged.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import crc32c

from app.checkpoint.names import SHARDS
from app.checkpoint.storage.store import Kinds, fields_of

FORMAT = 2
READABLE = (1, 2)
"""Formats differ in the table (table.py). What was written once stays readable."""
_SEAL_LIMIT = 160
"""No seal is longer, in bytes; a file without a line end in that many bytes has none."""


class Torn(Exception):  # noqa: N818 - a state of a file, not an error
    """The file ends before its seal says: a save that was killed. Not a checkpoint, not an error."""


class Damaged(Exception):  # noqa: N818
    """Bytes are not what was written, or were never written by us."""


class Unsupported(Exception):  # noqa: N818
    """A sound manifest of a format this version does not read."""


@dataclass(frozen=True)
class Shard:
    """One file of tensor bytes, in safetensors format."""

    name: str
    size_bytes: int
    crc32c: str
    """Eight hex digits, over the whole file."""


@dataclass(frozen=True)
class Head:
    """What choosing, listing and verifying need."""

    name: str
    step: int
    attempt: str
    created_at: str
    """RFC 3339, by the writer's clock; informative only."""
    identity: dict[str, Any]
    """What the state belongs to; a difference at resume is refused."""
    environment: dict[str, Any]
    """Where it was made: torch, CUDA, device, determinism. Informative; a difference is logged."""
    resumed_from: str | None
    checked: str
    """Which proof of durability the writer had, e.g. "size"."""
    shards: tuple[Shard, ...]
    files: int | None = None
    """How many files a directory tree has (trees/); None: it is a session's state."""

    @property
    def size_bytes(self) -> int:
        return sum(shard.size_bytes for shard in self.shards)


@dataclass(frozen=True)
class Manifest:
    head: Head
    table: bytes
    """The table's JSON, unparsed: choosing a checkpoint does not need it."""
    format: int = FORMAT

    def encode(self) -> bytes:
        head = _dumps(asdict(self.head)) + b"\n"
        table = self.table + b"\n"
        checksum = _checksum(self.format, head, table)
        seal = {"format": self.format, "head_bytes": len(head), "table_bytes": len(table), "crc32c": checksum}
        return _dumps(seal) + b"\n" + head + table

    @classmethod
    def decode(cls, content: bytes) -> Manifest:
        """Raises Torn, Damaged or Unsupported."""
        line, found, body = content.partition(b"\n")
        if not found:
            if len(content) < _SEAL_LIMIT and _could_be_seal(content):
                raise Torn(f"it ends after {len(content)} bytes, within its first line")
            raise Damaged("it does not begin as a manifest does")
        try:
            seal = fields_of(json.loads(line), _SEAL)
        except (ValueError, RecursionError):
            raise Damaged("its first line is not a manifest's") from None
        version, head_bytes, table_bytes, checksum = (seal[name] for name in _SEAL)
        if min(head_bytes, table_bytes) < 0:
            raise Damaged("its first line promises fewer than 0 bytes")
        if len(body) < head_bytes + table_bytes:
            raise Torn(f"it holds {len(body)} bytes after its first line and promises {head_bytes + table_bytes}")
        head, table = body[:head_bytes], body[head_bytes:]
        if len(table) != table_bytes or checksum != _checksum(version, head, table):
            raise Damaged("its checksum does not match its content")
        if version not in READABLE:
            raise Unsupported(f"it is of format {version}; this version reads {' and '.join(map(str, READABLE))}")
        try:
            return cls(_head(json.loads(head)), table.removesuffix(b"\n"), version)
        except (ValueError, RecursionError) as error:
            raise Damaged(f"its bytes verify but its head makes no sense: {error}") from error


_NONE = type(None)
_SEAL: Kinds = {"format": (int,), "head_bytes": (int,), "table_bytes": (int,), "crc32c": (str,)}
_HEAD: Kinds = {
    "name": (str,), "step": (int,), "attempt": (str,), "created_at": (str,), "identity": (dict,),
    "environment": (dict,), "resumed_from": (str, _NONE), "checked": (str,), "shards": (list,),
    "files": (int, _NONE),
}  # fmt: skip
_SHARD: Kinds = {"name": (str,), "size_bytes": (int,), "crc32c": (str,)}


def _head(found: Any) -> Head:
    """Fields that only another version knows are ignored. Raises ValueError."""
    fields = fields_of(found, _HEAD)
    shards = tuple(_shard(each) for each in fields["shards"])
    known: dict[str, Any] = {name: fields.get(name) for name in _HEAD} | {"shards": shards}
    return Head(**known)


def _shard(found: Any) -> Shard:
    shard = Shard(**{name: value for name, value in fields_of(found, _SHARD).items() if name in _SHARD})
    if not shard.name.startswith(SHARDS) or {"", ".", ".."} & set(shard.name.split("/")):
        raise ValueError(f"a shard's name is {shard.name[:80]!r}, which is not below {SHARDS}")
    if shard.size_bytes < 0:
        raise ValueError(f"shard {shard.name} is said to hold {shard.size_bytes} bytes")
    return shard


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()


def _checksum(version: int, head: bytes, table: bytes) -> str:
    lengths = f"{version} {len(head)} {len(table)}\n".encode()
    return f"{crc32c.crc32c(table, crc32c.crc32c(head, crc32c.crc32c(lengths))):08x}"


def _could_be_seal(content: bytes) -> bool:
    start = b'{"format":'
    return start.startswith(content[: len(start)])
