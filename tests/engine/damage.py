"""Every way to damage an object that the corruption sweep knows: where it can be hit, and what can be done there."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from app.checkpoint.names import CHECKPOINTS, SHARDS

EVERY_BIT_BYTES = 12
"""In regions up to this long each bit is flipped, not one a byte."""
POSITIONS = 120
"""So many places of a longer region, evenly spread: its ends always, and all of it where it is no longer than that."""


@dataclass(frozen=True)
class Region:
    """Bytes of an object that mean one thing."""

    name: str
    begin: int
    end: int


@dataclass(frozen=True)
class Damage:
    """What to have in place of an object; None: nothing."""

    what: str
    content: bytes | None


def regions(name: str, content: bytes) -> list[Region]:
    """They cover the whole object."""
    if name.startswith(SHARDS):
        return [each for each in _of_shard(content) if each.end > each.begin]
    if name.startswith(CHECKPOINTS):
        return _of_manifest(content)
    return list(_of_json("", content, 0))


def _of_manifest(content: bytes) -> list[Region]:
    seal, head, _table = content.splitlines(keepends=True)
    found = [*_of_json("seal ", seal, 0), *_of_json("head ", head, len(seal))]
    return [*found, Region("table", len(seal) + len(head), len(content))]


def _of_json(prefix: str, line: bytes, at: int) -> Iterator[Region]:
    """Each field of an object with its name, up to the next field's; then the closing brace."""
    begin, starts = 0, []
    for field in json.loads(line):
        begin = line.index(json.dumps(field).encode() + b":", begin)
        starts.append((field, begin))
    ends = [start for _, start in starts[1:]] + [line.rindex(b"}")]
    yield Region(f"{prefix}opening", at, at + starts[0][1])
    for (field, start), end in zip(starts, ends, strict=True):
        yield Region(prefix + field, at + start, at + end)
    yield Region(f"{prefix}closing", at + ends[-1], at + len(line))


def _of_shard(content: bytes) -> list[Region]:
    (length,) = struct.unpack("<Q", content[:8])
    text, data = 8 + len(content[8 : 8 + length].rstrip(b" ")), 8 + length
    tail = max(data, len(content) - 16)
    return [
        *(Region("header length", 0, 8), Region("header", 8, text), Region("padding", text, data)),
        *(Region("data", data, tail), Region("tail", tail, len(content))),
    ]


def damages(name: str, objects: dict[str, bytes]) -> Iterator[Damage]:
    """All of one object, each with other content than it has."""
    content = objects[name]
    found = regions(name, content)
    for region in found:
        yield from _flips(content, region)
    for damage in (*_cuts(content, found), *_swaps(name, objects)):
        if damage.content != content:
            yield damage
    yield Damage("missing", None)


def _flips(content: bytes, region: Region) -> Iterator[Damage]:
    size = region.end - region.begin
    stride = max(1, size // POSITIONS)
    for at in sorted({*range(region.begin, region.end, stride), region.end - 1}):
        for bit in range(8) if size <= EVERY_BIT_BYTES else [at % 8]:
            flipped = bytes([content[at] ^ (1 << bit)])
            yield Damage(f"bit {bit} of byte {at} ({region.name}) flipped", content[:at] + flipped + content[at + 1 :])


def _cuts(content: bytes, found: list[Region]) -> Iterator[Damage]:
    edges = {at + by for each in found for at in (each.begin, each.end) for by in (-1, 0, 1)}
    middles = {(each.begin + each.end) // 2 for each in found}
    pages = set(range(1024, len(content), 1024))
    for length in sorted(length for length in {0, *edges, *middles, *pages} if 0 <= length < len(content)):
        yield Damage(f"cut to {length} bytes" if length else "emptied", content[:length])
        if length:
            yield Damage(f"zeros from byte {length} on", content[:length] + bytes(len(content) - length))
            yield Damage(f"without its first {length} bytes", content[length:])
    for what, tail in {"a zero": b"\0", "a line end": b"\n", "itself": content, "a page of zeros": bytes(4096)}.items():
        yield Damage(f"with {what} behind it", content + tail)


def _swaps(name: str, objects: dict[str, bytes]) -> Iterator[Damage]:
    """The content of every other object in its place, whole and one half of it."""
    content = objects[name]
    for other, theirs in objects.items():
        half = len(content) // 2
        yield Damage(f"swapped with {other}", theirs)
        yield Damage(f"second half from {other}", content[:half] + theirs[half:])
        yield Damage(f"first half from {other}", theirs[:half] + content[half:])
