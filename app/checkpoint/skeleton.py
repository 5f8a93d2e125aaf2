"""A state before its bytes are read: its tree, with what the table says in place of every tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from app.checkpoint import codec
from app.checkpoint.manifest import Damaged

if TYPE_CHECKING:
    from app.checkpoint.table import Table


@dataclass(frozen=True)
class Unread:
    """A value that cannot be told without its bytes, such as a tensor that is made of several."""


UNREAD = Unread()


def of(table: Table) -> dict[str, Any]:
    """Plain tensors and arrays are their Place, what is made of them in another way is UNREAD. Raises Damaged."""
    try:
        found = _node(table.tree, table.places)
    except (codec.Undecodable, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise Damaged(f"its bytes verify but do not decode: {error!r}") from error
    if not isinstance(found, dict):
        raise Damaged(f"its bytes verify but its state is a {type(found).__name__}")
    return cast("dict[str, Any]", found)


def _node(tree: Any, places: Any) -> Any:
    if type(tree) is list:
        return [_node(item, places) for item in cast("list[Any]", tree)]
    if type(tree) is not dict:
        return tree
    node = cast("dict[str, Any]", tree)
    if len(node) == 1 and (mark := next(iter(node)))[:1] == "$":
        return _marked(mark, node[mark], places)
    return {key: _node(item, places) for key, item in node.items()}


def _marked(mark: str, value: Any, places: Any) -> Any:
    match mark:
        case "$tensor" | "$array":
            found = places[value]
        case "$dict" | "$ordered":
            found = {_key(key): _node(item, places) for key, item in value}
        case "$attributed":
            found = _node(value[0], places)
        case "$tuple":
            found = tuple(_node(item, places) for item in value)
        case _:
            found = UNREAD
    return found


def _key(key: Any) -> Any:
    return key if type(key) in {int, str} else codec.decode(key, lambda _index: UNREAD)
