"""The table of a manifest: the state's tree, and where each tensor's bytes lie. Encodes format 2, decodes 1 and 2.

Format 2 holds columns, not rows: ten thousand tensors then cost a fifth of the bytes, and both ways of the JSON run in
C. What is decoded has passed a checksum, but may still be of another making: every field's type is looked at here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from app.checkpoint.storage.store import Kinds, fields_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class Place(NamedTuple):
    """One tensor or array: what its bytes mean and where they begin."""

    path: str
    """In the tree, e.g. `model/wte.weight`."""
    kind: str
    """`tensor` (torch) or `array` (numpy)."""
    dtype: str
    shape: tuple[int, ...]
    shard: int
    """Index in the head's list of shards."""
    begin: int
    """Byte in that shard's data section."""


@dataclass(frozen=True)
class Table:
    """`{"$tensor": i}` in the tree stands for `places[i]`."""

    tree: Any
    places: Sequence[Place] = field(default_factory=list[Place])

    def encode(self) -> bytes:
        """As format 2."""
        turned = list(zip(*self.places, strict=True)) or [()] * len(_COLUMNS)
        return join(self.tree, _dumps(dict(zip(_COLUMNS, turned, strict=True))))

    @classmethod
    def decode(cls, content: bytes, version: int) -> Table:
        """`version` is the manifest's format. Raises ValueError and RecursionError for what makes no sense."""
        found = fields_of(json.loads(content), _TABLE[version])
        if "tree" not in found:
            raise ValueError("it has no tree")
        rows = _rows(found["tensors"]) if version == 1 else _transposed(found["tensors"])
        return cls(found["tree"], rows)


def columns(*turned: Sequence[Any]) -> bytes:
    """The JSON of the tensors' columns, which are in the order of Place's fields. It may be kept from save to save."""
    pairs = zip(_COLUMNS, turned, strict=True)
    words = {name: _alike(column) if name in _REPEATING else _dumps(column) for name, column in pairs}
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), word) for name, word in words.items())


def join(tree: Any, tensors: bytes) -> bytes:
    """A table of this tree and these `columns`."""
    return b'{"tree":%b,"tensors":%b}' % (_dumps(tree), tensors)


_COLUMNS = Place._fields
_REPEATING = {"kind", "dtype", "shape", "shard"}
"""Columns of few different values."""
_TABLE: dict[int, Kinds] = {1: {"tensors": (list,)}, 2: {"tensors": (dict,)}}
_COLUMN_KINDS: Kinds = dict.fromkeys(_COLUMNS, (list,))


def _rows(found: list[Any]) -> list[Place]:
    rows = [fields_of(row, dict.fromkeys(_COLUMNS, (str, int, list))) for row in found]
    return _checked([[row[name] for row in rows] for name in _COLUMNS])


def _transposed(found: dict[str, Any]) -> list[Place]:
    fields = fields_of(found, _COLUMN_KINDS)
    return _checked([fields[name] for name in _COLUMNS])


def _checked(turned: list[list[Any]]) -> list[Place]:
    """From columns in the order of Place's fields."""
    paths, kinds, dtypes, shapes, shards, begins = turned
    for name, column in (("path", paths), ("kind", kinds), ("dtype", dtypes)):
        _refuse_unless(str, name, column)
    for name, column in (("shard", shards), ("begin", begins)):
        _refuse_unless(int, name, column)
        _refuse_negative(name, column)
    _refuse_unless(list, "shape", shapes)
    sides = [side for shape in cast("list[list[Any]]", shapes) for side in shape]
    _refuse_unless(int, "shape", sides)
    _refuse_negative("shape", sides)
    if len({len(column) for column in turned}) > 1:
        raise ValueError(f"its columns are of lengths {[len(column) for column in turned]}")
    rows = zip(paths, kinds, dtypes, map(tuple, shapes), shards, begins, strict=True)
    return list(map(tuple.__new__, repeat(Place), rows))  # Place(...) takes 0.2 us instead of 0.08


def _refuse_unless(kind: type, name: str, values: list[Any]) -> None:
    if set(map(type, values)) - {kind}:
        odd = next(value for value in values if type(value) is not kind)
        raise ValueError(f"a tensor's {name} is {str(odd)[:80]!r}")


def _refuse_negative(name: str, values: list[int]) -> None:
    if min(values, default=0) < 0:
        raise ValueError(f"a tensor's {name} is {min(values)}, below 0")


def _dumps(value: Any) -> bytes:
    """Without a look for what holds itself, a third of the time: no tree that was encoded does (encoding.py)."""
    return json.dumps(value, separators=(",", ":"), check_circular=False).encode()


def _alike(column: Sequence[Hashable]) -> bytes:
    """As `_dumps`, each different value once: ten thousand shapes take 0.4 ms instead of 2.4."""
    words = {each: _dumps(each) for each in set(column)}
    return b"[%b]" % b",".join([words[each] for each in column])
