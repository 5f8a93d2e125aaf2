"""What lies in a line's directory, read without the engine: by docs/checkpoints.md alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crc32c

_NAME = re.compile(r"(?P<step>[0-9]{12,})-e(?P<epoch>[0-9]{4,})-[0-9a-f]{6}(?:-r(?P<again>[0-9]+))?")


class Broken(Exception):  # noqa: N818
    """A committed checkpoint whose bytes are not there: what the protocol excludes."""


@dataclass(frozen=True, order=True)
class Found:
    """A committed checkpoint. Ordered as the page says: by (epoch, step, try)."""

    epoch: int
    step: int
    again: int
    name: str


def committed(line: Path) -> list[Found]:
    """Every committed checkpoint, oldest first; torn manifests are none. Raises Broken for one that is damaged."""
    found = list[Found]()
    folder = line / "checkpoints"
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = _NAME.fullmatch(path.stem)
        if match is None:
            raise Broken(f"{path.name} is not a checkpoint's name")
        if _is_sound(line, path):
            numbers = match.groupdict(default="0")
            found.append(Found(int(numbers["epoch"]), int(numbers["step"]), int(numbers["again"]), path.stem))
    return sorted(found)


def _is_sound(line: Path, manifest: Path) -> bool:
    content = manifest.read_bytes()
    seal_line, _, rest = content.partition(b"\n")
    try:
        seal: dict[str, Any] = json.loads(seal_line)
    except ValueError:
        return False
    if len(rest) < seal["head_bytes"] + seal["table_bytes"]:
        return False
    sealed = f"{seal['format']} {seal['head_bytes']} {seal['table_bytes']}\n".encode() + rest
    if f"{crc32c.crc32c(sealed):08x}" != seal["crc32c"]:
        raise Broken(f"{manifest.name} is damaged")
    for shard in json.loads(rest[: seal["head_bytes"]])["shards"]:
        path = line / shard["name"]
        if not path.exists():
            raise Broken(f"{manifest.name} is committed and {shard['name']} is missing")
        image = path.read_bytes()
        if (len(image), f"{crc32c.crc32c(image):08x}") != (shard["size_bytes"], shard["crc32c"]):
            raise Broken(f"{manifest.name} is committed and {shard['name']} holds other bytes")
    return True
