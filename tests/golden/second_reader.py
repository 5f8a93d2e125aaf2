"""The values of a checkpoint, read by docs/checkpoints.md alone: a second reader beside the engine's.

An engine whose two halves change in the same way still agrees with itself, and no longer with the page.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import enum
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.crash.line_on_disk import Broken, Content, Found, Torn, content_of, crc32c_of, named

Classes = Mapping[str, type[Any]]
"""What the program registered, by name."""


def newest(line: Path) -> Found | None:
    """What a resume chooses on this line, as far as bytes tell. None if nothing is whole."""
    quarantined = {path.stem for path in (line / "quarantine").glob("*.json")}
    for found in reversed(named(line)):
        if found.name in quarantined:
            continue
        try:
            content_of(line, found)
        except (Torn, Broken):
            continue
        return found
    return None


def state(line: Path, found: Found, classes: Classes) -> Any:
    """What a session, or whoever else encoded a tree of values, saved. Raises Broken."""
    content = content_of(line, found)
    return _Values(_rows(content), classes).value(content.table["tree"])


def tree(line: Path, found: Found) -> dict[str, object]:
    """Path -> (mode, time, bytes) of a file, (mode, time, None) of a directory, a link's target. Raises Broken."""
    content = content_of(line, found)
    files = list(_columns(content.table["files"], "path", "size_bytes", "mode", "modified_ns", "shard", "begin"))
    if content.head["files"] != len(files):
        raise Broken(f"{found.name} has {len(files)} files, and its head says {content.head['files']}")
    read = {
        path: (mode, modified_ns, content.shards[shard][begin : begin + size] if size else b"")
        for path, size, mode, modified_ns, shard, begin in files
    }
    directories = _columns(content.table["directories"], "path", "mode", "modified_ns")
    folders = {path: (mode, modified_ns, None) for path, mode, modified_ns in directories}
    return {**read, **folders, **dict(_columns(content.table["links"], "path", "target"))}


def done(line: Path) -> dict[str, Any] | None:
    """What done.json says, if it may be believed."""
    path = line / "done.json"
    fields: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {"step": math.inf}
    told = fields.pop("crc32c", None)
    if told not in (None, crc32c_of(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())):
        return None
    return fields if any(found.step >= fields["step"] for found in named(line)) else None


def _columns(table: Mapping[str, list[Any]], *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name] for name in names), strict=True)


def _rows(content: Content) -> list[Any]:
    """The tensors and arrays of the table, with bytes of their own."""
    names, tensors = ("kind", "dtype", "shape", "shard", "begin"), content.table["tensors"]
    if content.format == 1:
        rows = [tuple(row[name] for name in names) for row in tensors]
    else:
        rows = list(_columns(tensors, *names))
    made = list[Any]()
    for kind, name, shape, shard, begin in rows:
        file = content.shards[shard]
        first = 8 + int.from_bytes(file[:8], "little") + begin
        dtype: Any = getattr(torch, name) if kind == "tensor" else np.dtype(name)
        raw = file[first : first + math.prod(shape) * dtype.itemsize]
        if kind == "array":
            made.append(np.frombuffer(raw, dtype).reshape(shape).copy())
        elif raw:
            made.append(torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype).reshape(shape))
        else:
            made.append(torch.empty(shape, dtype=dtype))
    return made


@dataclass(frozen=True)
class _Values:
    """The table of marks on the page."""

    rows: list[Any]
    classes: Classes

    def value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.value(each) for each in node]
        if not isinstance(node, dict):
            return node
        if len(node) == 1 and next(iter(node)).startswith("$"):
            ((mark, told),) = node.items()
            return _MARKS[mark](self, told)
        return {key: self.value(each) for key, each in node.items()}

    def pairs(self, told: Any) -> dict[Any, Any]:
        return {self.value(key): self.value(each) for key, each in told}

    def scalar(self, told: Any) -> Any:
        return self.rows[told][()] if isinstance(told, int) else np.frombuffer(_bytes(told[1]), told[0])[0]

    def attributed(self, told: Any) -> Any:
        bare = self.value(told[0])
        vars(bare).update(self.value(told[1]))
        return bare

    def member(self, told: Any) -> Any:
        cls: Any = self.classes[told[0]]
        return cls(told[1]) if issubclass(cls, enum.Flag) else cls[told[1]]

    def record(self, told: Any) -> Any:
        cls, fields = self.classes[told[0]], self.value(told[1])
        if not dataclasses.is_dataclass(cls):
            return cls(**fields)
        made = object.__new__(cls)
        vars(made).update(fields)
        return made

    def subclass(self, told: Any) -> Any:
        name, inner, context, size, stride = told
        cls: Any = self.classes[name]
        return cls.__tensor_unflatten__(self.value(inner), self.value(context), torch.Size(size), tuple(stride))


_bytes = base64.b64decode
_FACTORIES: dict[str, Any] = {
    "none": None,
    **{kind.__name__: kind for kind in (bool, int, float, str, bytes, list, tuple, dict)},
}
_MARKS: dict[str, Callable[[_Values, Any], Any]] = {
    "$tensor": lambda values, told: values.rows[told],
    "$array": lambda values, told: values.rows[told],
    "$view": lambda values, told: values.value(told[1]).view(told[0]),
    "$scalar": _Values.scalar,
    "$tuple": lambda values, told: tuple(values.value(told)),
    "$deque": lambda values, told: collections.deque(values.value(told[1]), told[0]),
    "$dict": _Values.pairs,
    "$ordered": lambda values, told: collections.OrderedDict(values.pairs(told)),
    "$counter": lambda values, told: collections.Counter(values.pairs(told)),
    "$default": lambda values, told: collections.defaultdict(_FACTORIES[told[0]], values.pairs(told[1])),
    "$attributed": _Values.attributed,
    "$int": lambda _, told: int(told, 16),
    "$float": lambda _, told: float(told),
    "$complex": lambda values, told: complex(*values.value(told)),
    "$bytes": lambda _, told: _bytes(told),
    "$bytearray": lambda _, told: bytearray(_bytes(told)),
    "$text": lambda _, told: _bytes(told).decode("utf-8", "surrogatepass"),
    "$size": lambda _, told: torch.Size(told),
    "$dtype": lambda _, told: getattr(torch, told),
    "$device": lambda _, told: torch.device(told),
    "$enum": _Values.member,
    "$record": _Values.record,
    "$subclass": _Values.subclass,
}
