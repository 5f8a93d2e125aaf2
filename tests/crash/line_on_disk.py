"""What lies in a line's directory, read without the engine: by docs/checkpoints.md alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crc32c

_NAME = re.compile(r"(?P<step>[0-9]{12,})-e(?P<epoch>[0-9]{4,})-[0-9a-f]{6}(?:-r(?P<again>[0-9]+))?")
_SEAL, _SEAL_BYTES = b'{"format":', 160
"""How each begins; none is longer."""


class Broken(Exception):  # noqa: N818
    """A committed checkpoint whose bytes are not there: what the protocol excludes."""


class Torn(Exception):  # noqa: N818
    """The file of a save that was killed before its commit."""


@dataclass(frozen=True, order=True)
class Found:
    """A checkpoint. Ordered as the page says: by (epoch, step, try), then by nonce."""

    epoch: int
    step: int
    again: int
    name: str


@dataclass(frozen=True)
class Content:
    """Of a checkpoint whose every byte has its checksum."""

    format: int
    head: dict[str, Any]
    table: dict[str, Any]
    shards: list[bytes]
    """Whole files, in the head's order."""


def committed(line: Path) -> list[Found]:
    """Every committed checkpoint, oldest first; torn manifests are none. Raises Broken for one that is damaged."""
    found = list[Found]()
    for each in named(line):
        try:
            content_of(line, each)
        except Torn:
            continue
        found.append(each)
    return found


def named(line: Path) -> list[Found]:
    """Whatever has a manifest, oldest first. Raises Broken for a file that is none."""
    found = list[Found]()
    folder = line / "checkpoints"
    for path in folder.iterdir() if folder.is_dir() else []:
        match = _NAME.fullmatch(path.stem)
        if match is None:
            raise Broken(f"{path.name} is not a checkpoint's name")
        numbers = match.groupdict(default="0")
        found.append(Found(int(numbers["epoch"]), int(numbers["step"]), int(numbers["again"]), path.stem))
    return sorted(found)


def content_of(line: Path, found: Found) -> Content:
    """Raises Torn and Broken."""
    manifest = line / "checkpoints" / f"{found.name}.json"
    written = manifest.read_bytes()
    seal_line, end, rest = written.partition(b"\n")
    if not end and len(written) < _SEAL_BYTES and _SEAL.startswith(written[: len(_SEAL)]):
        raise Torn(f"{manifest.name} ends in its first line")
    try:
        seal: dict[str, Any] = json.loads(seal_line)
    except ValueError as error:
        raise Broken(f"{manifest.name} does not begin with a seal") from error
    if len(rest) < seal["head_bytes"] + seal["table_bytes"]:
        raise Torn(f"{manifest.name} is shorter than its seal says")
    sealed = f"{seal['format']} {seal['head_bytes']} {seal['table_bytes']}\n".encode() + rest
    if crc32c_of(sealed) != seal["crc32c"]:
        raise Broken(f"{manifest.name} is damaged")
    head, table = json.loads(rest[: seal["head_bytes"]]), json.loads(rest[seal["head_bytes"] :])
    return Content(seal["format"], head, table, [_shard(line, manifest.name, shard) for shard in head["shards"]])


def crc32c_of(content: bytes) -> str:
    """As every document writes it."""
    return f"{crc32c.crc32c(content):08x}"


def _shard(line: Path, manifest: str, shard: dict[str, Any]) -> bytes:
    path = line / shard["name"]
    if not path.exists():
        raise Broken(f"{manifest} is committed and {shard['name']} is missing")
    content = path.read_bytes()
    if (len(content), crc32c_of(content)) != (shard["size_bytes"], shard["crc32c"]):
        raise Broken(f"{manifest} is committed and {shard['name']} holds other bytes")
    return content
