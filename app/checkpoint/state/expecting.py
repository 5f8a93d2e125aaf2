"""What stands behind a mark must be of its types; anything else is no state of ours."""

from __future__ import annotations

from typing import Any, cast

from app.checkpoint.state.blob import Undecodable


def index_of(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Undecodable(f"{str(value)[:40]!r} is no number of a tensor")
    return value


def parts_of(value: Any, *wanted: type | tuple[type, ...]) -> list[Any]:
    """A list of exactly these types."""
    if type(value) is not list or len(items := cast("list[Any]", value)) != len(wanted):
        raise Undecodable(f"{str(value)[:80]!r} is not of {len(wanted)} parts")
    for item, kind in zip(items, wanted, strict=True):
        if not isinstance(item, kind) or (isinstance(item, bool) and kind is not object):
            raise Undecodable(f"{str(item)[:80]!r} is of another type than belongs there")
    return items


def list_of(value: Any, kind: type = object) -> list[Any]:
    if type(value) is not list:
        raise Undecodable(f"{str(value)[:80]!r} is no list")
    items = cast("list[Any]", value)
    return items if kind is object else parts_of(items, *[kind] * len(items))
