"""Small documents that carry a checksum of their own fields, because a changed digit in them would be believed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import crc32c

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELD = "crc32c"


def encode(fields: Mapping[str, Any]) -> bytes:
    """The document with its checksum, eight hex digits over the other fields as JSON in order of names."""
    return json.dumps({**fields, FIELD: _checksum(fields)}).encode()


def is_unchanged(found: Mapping[str, Any]) -> bool:
    """Whether the fields are those that were written. True for a document of a version that wrote no checksum."""
    return FIELD not in found or found[FIELD] == _checksum({name: found[name] for name in found if name != FIELD})


def _checksum(fields: Mapping[str, Any]) -> str:
    return f"{crc32c.crc32c(json.dumps(fields, sort_keys=True, separators=(',', ':')).encode()):08x}"
