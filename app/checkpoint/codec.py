"""A tree of state to JSON and raw bytes, and back. Nothing is ever pickled.

Leaves: None, bool, int of any size, float (nan and inf too), str, bytes, torch tensors, numpy arrays and scalars.
Nodes: dict with any of those hashable keys, list, tuple, OrderedDict, Counter. Anything else is refused with its
path.

In the JSON an object with one key that begins with "$" is a value JSON has no word for; `{"$tensor": 3}` stands for the
third entry of the table. A tensor that occurs twice (tied weights) is one entry.

torch and numpy are not imported here: a state that holds none of their values is written without them.
"""

from __future__ import annotations

import base64
import math
import sys
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable


class Unsavable(TypeError):  # noqa: N818
    """A value that the format has no safe form for; the message gives its path in the state's tree."""


class Undecodable(Exception):  # noqa: N818
    """JSON that is not this format's."""


@dataclass(frozen=True)
class Blob:
    """The bytes of one tensor or array, and what they mean."""

    path: str
    """Where it was found first in the tree, e.g. `model/wte.weight`."""
    kind: str
    """`tensor` (torch) or `array` (numpy)."""
    dtype: str
    """`bfloat16`, `int64`, ... as torch or numpy spells it."""
    shape: tuple[int, ...]
    value: Any
    """The tensor or array itself; its bytes are taken when it is written."""

    @property
    def size_bytes(self) -> int:
        return int(self.value.nbytes)

    def data(self) -> memoryview:
        """Row-major little-endian bytes; a copy only where the value is not contiguous or not in host memory."""
        if self.kind == "array":
            import numpy as np

            array = np.ascontiguousarray(self.value).reshape(-1)
            return memoryview(cast("Any", array.view(np.uint8)))
        import torch

        host = self.value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return memoryview(host.view(torch.uint8).numpy())

    def copied(self) -> Blob:
        """The same with bytes of its own, so that training may go on while they are written."""
        value = self.value
        return replace(self, value=value.copy() if self.kind == "array" else value.detach().to("cpu", copy=True))


@dataclass(frozen=True)
class Encoded:
    """A state as JSON plus blobs."""

    tree: Any
    blobs: tuple[Blob, ...]
    frozen: frozenset[int] = frozenset()
    """Blobs, by index, which the program believes will not change any more."""

    @property
    def size_bytes(self) -> int:
        return sum(blob.size_bytes for blob in self.blobs)

    def copied(self) -> Encoded:
        return replace(self, blobs=tuple(blob.copied() for blob in self.blobs))


def encode(state: Any) -> Encoded:
    """Raises Unsavable."""
    encoder = _Encoder()
    tree = encoder.node(state, "")
    return Encoded(tree, tuple(encoder.blobs))


def decode(tree: Any, blob: Callable[[int], Any]) -> Any:
    """The state; `blob(i)` gives the i-th tensor or array. Raises Undecodable."""
    if isinstance(tree, list):
        return [decode(item, blob) for item in cast("list[Any]", tree)]
    if not isinstance(tree, dict):
        return tree
    node = cast("dict[str, Any]", tree)
    if len(node) == 1 and (key := next(iter(node))).startswith("$"):
        if key not in _DECODERS:
            raise Undecodable(f"unknown mark {key!r}")
        return _DECODERS[key](node[key], blob)
    return {key: decode(value, blob) for key, value in node.items()}


def _pairs(items: Any, blob: Callable[[int], Any]) -> list[tuple[Any, Any]]:
    return [(decode(key, blob), decode(value, blob)) for key, value in items]


def _numpy_scalar(value: Any, blob: Callable[[int], Any]) -> Any:
    return blob(value)[()]


_DECODERS: dict[str, Callable[[Any, Callable[[int], Any]], Any]] = {
    "$tensor": lambda value, blob: blob(value),
    "$array": lambda value, blob: blob(value),
    "$scalar": _numpy_scalar,
    "$tuple": lambda value, blob: tuple(decode(item, blob) for item in value),
    "$dict": lambda value, blob: dict(_pairs(value, blob)),
    "$ordered": lambda value, blob: OrderedDict(_pairs(value, blob)),
    "$counter": lambda value, blob: Counter(dict(_pairs(value, blob))),
    "$bytes": lambda value, _: base64.b64decode(value, validate=True),
    "$float": lambda value, _: float(value),
}


class _Encoder:
    def __init__(self) -> None:
        self.blobs = list[Blob]()
        self._seen = dict[tuple[Any, ...], int]()
        self._paths = {"__metadata__"}  # a reserved word of the safetensors header

    def node(self, value: Any, path: str) -> Any:  # noqa: PLR0911 - one return a kind of value
        kind: type[Any] = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is bytes:
            return {"$bytes": base64.b64encode(value).decode()}
        if kind is list:
            return [self.node(item, f"{path}/{i}") for i, item in enumerate(value)]
        if kind is tuple:
            return {"$tuple": [self.node(item, f"{path}/{i}") for i, item in enumerate(value)]}
        if kind is OrderedDict:
            return {"$ordered": self._pairs(value, path)}
        if kind is Counter:
            return {"$counter": self._pairs(value, path)}
        if kind is dict:
            plain = all(type(key) is str and not key.startswith("$") for key in value)
            if plain:
                return {key: self.node(item, _join(path, key)) for key, item in value.items()}
            return {"$dict": self._pairs(value, path)}
        return self._blob(value, path)

    def _pairs(self, value: dict[Any, Any], path: str) -> list[list[Any]]:
        return [[self.node(key, f"{path}/key"), self.node(item, _join(path, key))] for key, item in value.items()]

    def _blob(self, value: Any, path: str) -> Any:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            _refuse_odd_tensor(torch, value, path)
            identity = (value.data_ptr(), value.dtype, value.shape, value.stride(), value.device)
            name, kind = str(value.dtype).removeprefix("torch."), "tensor"
            return {"$tensor": self._place(Blob(path, kind, name, tuple(value.shape), value), identity)}
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            array: Any = numpy.asarray(value)
            if array.dtype.kind not in "biufc" or array.dtype.byteorder == ">":
                raise Unsavable(f"{path}: a numpy array of dtype {array.dtype} cannot be saved; convert it to numbers")
            identity = (id(value), "numpy")
            index = self._place(Blob(path, "array", array.dtype.name, tuple(array.shape), array), identity)
            return {"$array" if isinstance(value, numpy.ndarray) else "$scalar": index}
        raise Unsavable(
            f"{path or 'the state'}: a {type(value).__module__}.{type(value).__qualname__} cannot be saved. A "
            "checkpoint holds tensors, numbers, text, bytes, None, and dicts, lists and tuples of them; give its "
            "state_dict() instead"
        )

    def _place(self, blob: Blob, identity: tuple[Any, ...]) -> int:
        if blob.size_bytes and identity in self._seen:
            return self._seen[identity]
        self._seen[identity] = len(self.blobs)
        if blob.path in self._paths:  # {"a/b": x, "a": {"b": y}}
            blob = replace(blob, path=f"{blob.path}#{len(self.blobs)}")
        self._paths.add(blob.path)
        self.blobs.append(blob)
        return len(self.blobs) - 1


def _refuse_odd_tensor(torch: Any, value: Any, path: str) -> None:
    plain = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    odd = None
    if type(value) not in plain:
        odd = f"of class {type(value).__qualname__}"
    elif value.device.type == "meta":
        odd = "on the meta device (it has no data)"
    elif value.layout is not torch.strided or value.is_quantized:
        odd = f"of layout {value.layout}" if not value.is_quantized else "that is quantized"
    if odd:
        raise Unsavable(f"{path}: a tensor {odd} cannot be saved")


def _join(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)
