"""JSON back to the tree of state. It trusts nothing: whatever it is given, it ends with a state or its own error."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, cast

from app.checkpoint.state import kinds, plain, registered
from app.checkpoint.state.blob import Undecodable
from app.checkpoint.state.expecting import index_of, list_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Blobs = Callable[[int], Any]


def decode(tree: Any, blob: Blobs) -> Any:
    """The state; `blob(i)` gives the i-th tensor or array, and is asked again wherever that occurs again.

    Raises Undecodable; NotRegistered and ClassChanged (registered.py), which are Refusals: such a state is sound and
    this program is not the one for it; and whatever `blob` raises.
    """
    try:
        return _decode(tree, blob)
    except RecursionError:
        raise Undecodable("it is nested too deep") from None


def _decode(tree: Any, blob: Blobs) -> Any:
    kind = type(tree)
    if kind is dict:
        if len(tree) == 1:
            ((key, value),) = tree.items()
            if key == "$tensor":
                return blob(index_of(value))
            if key[:1] == "$":
                return _marked(key, value, blob)
        return {  # a tensor, which most values of a large dict are, without a call for each
            key: blob(index)
            if type(value) is dict and len(value) == 1 and type(index := value.get("$tensor")) is int and index >= 0
            else _decode(value, blob)
            for key, value in tree.items()
        }
    if kind is list:
        return [_decode(item, blob) for item in tree]
    return tree


def _marked(key: str, value: Any, blob: Blobs) -> Any:
    decoder = _DECODERS.get(key)
    if decoder is None:
        raise Undecodable(f"unknown mark {key[:40]!r}")
    return decoder(value, blob)


def _items(value: Any, blob: Blobs) -> list[Any]:
    return [_decode(item, blob) for item in list_of(value)]


def _pairs(value: Any, blob: Blobs) -> dict[Any, Any]:
    parts = [parts_of(pair, object, object) for pair in list_of(value)]
    pairs = [(_decode(key, blob), _decode(item, blob)) for key, item in parts]
    try:
        return dict(pairs)
    except TypeError as error:
        raise Undecodable(f"a key is none: {error}") from None


def _of_text(convert: Callable[[str], Any]) -> Callable[[Any, Blobs], Any]:
    """A decoder of what is one string."""

    def decoder(value: Any, _blob: Blobs) -> Any:
        (text,) = parts_of([value], str)
        try:
            return convert(text)
        except (ValueError, RuntimeError) as error:
            raise Undecodable(str(error)) from None

    return decoder


def _number(value: Any) -> float:
    """In what a complex number is made of."""
    return value if type(value) is float else _decode(value, _no_blob)


def _no_blob(_index: int) -> Any:
    raise Undecodable("a tensor where a number belongs")


def _complex(value: Any, _blob: Blobs) -> complex:
    real, imaginary = (_number(each) for each in parts_of(value, object, object))
    return complex(*parts_of([real, imaginary], float, float))


def _scalar(value: Any, blob: Blobs) -> Any:
    if type(value) is int:
        return blob(index_of(value))[()]  # format 1 kept each one as an array
    dtype, content = parts_of(value, str, str)
    try:
        return kinds.scalar(dtype, plain.to_bytes(content))
    except (ValueError, TypeError) as error:
        raise Undecodable(str(error)) from None


def _view(value: Any, blob: Blobs) -> Any:
    dtype, stored = parts_of(value, str, dict)
    array = _decode(stored, blob)
    try:
        return kinds.viewed(array, dtype)
    except (ValueError, TypeError, AttributeError) as error:
        raise Undecodable(str(error)) from None


def _default(value: Any, blob: Blobs) -> Any:
    name, pairs = parts_of(value, str, list)
    if name not in plain.FACTORIES:
        raise Undecodable(f"a defaultdict of {name[:40]!r}")
    return defaultdict(plain.FACTORIES[name], _pairs(pairs, blob))


def _deque(value: Any, blob: Blobs) -> Any:
    limit, items = parts_of(value, (int, type(None)), list)
    try:
        return deque(_items(items, blob), limit)
    except (ValueError, OverflowError) as error:
        raise Undecodable(str(error)) from None


def _attributed(value: Any, blob: Blobs) -> Any:
    bare, attributes = (_decode(each, blob) for each in parts_of(value, dict, dict))
    if type(bare) is not OrderedDict or type(attributes) is not dict:
        raise Undecodable("attributes of what has none")
    vars(bare).update(cast("dict[str, Any]", attributes))
    return cast("Any", bare)


def _size(value: Any, _blob: Blobs) -> Any:
    import torch

    try:
        return torch.Size(list_of(value, int))
    except (TypeError, OverflowError, RuntimeError) as error:
        raise Undecodable(str(error)) from None


def _device(text: str) -> Any:
    import torch

    return torch.device(text)


def _enum(value: Any, _blob: Blobs) -> Any:
    return registered.member(*parts_of(value, str, (str, int)))


def _fields(value: Any, blob: Blobs) -> dict[str, Any]:
    (stored,) = parts_of([value], dict)
    return {name: _decode(item, blob) for name, item in cast("dict[str, Any]", stored).items()}


def _record(value: Any, blob: Blobs) -> Any:
    name, fields = parts_of(value, str, dict)
    return registered.record(name, _fields(fields, blob))


def _subclass(value: Any, blob: Blobs) -> Any:
    name, inner, context, size, stride = parts_of(value, str, dict, object, list, list)
    inner, context = _fields(inner, blob), _decode(context, blob)
    return registered.subclass(name, inner, context, list_of(size, int), list_of(stride, int))


_DECODERS: dict[str, Callable[[Any, Blobs], Any]] = {
    "$tensor": lambda value, blob: blob(index_of(value)),
    "$array": lambda value, blob: blob(index_of(value)),
    "$view": _view,
    "$scalar": _scalar,
    "$tuple": lambda value, blob: tuple(_items(value, blob)),
    "$dict": _pairs,
    "$ordered": lambda value, blob: OrderedDict(_pairs(value, blob)),
    "$attributed": _attributed,
    "$counter": lambda value, blob: Counter(_pairs(value, blob)),
    "$default": _default,
    "$deque": _deque,
    "$int": _of_text(plain.to_int),
    "$float": _of_text(plain.to_float),
    "$text": _of_text(plain.to_text),
    "$bytes": _of_text(plain.to_bytes),
    "$bytearray": _of_text(lambda text: bytearray(plain.to_bytes(text))),
    "$complex": _complex,
    "$size": _size,
    "$dtype": _of_text(kinds.torch_dtype),
    "$device": _of_text(_device),
    "$enum": _enum,
    "$record": _record,
    "$subclass": _subclass,
}
"""Mark -> what makes a value of what stands behind it. docs/checkpoints.md describes each."""
