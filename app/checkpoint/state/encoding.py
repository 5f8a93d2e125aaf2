"""A tree of state to JSON and blobs. One pass, by exact type: a subclass is never taken for what it derives from."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, cast

from app.checkpoint import collector
from app.checkpoint.state import kinds, plain, refused, registered, together
from app.checkpoint.state.blob import Blob, Encoded, Unsavable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

MAX_DEPTH = 100
"""Containers within containers. Deeper ones would meet the recursion limit of Python's JSON here or at the reader."""


def encode(state: Any) -> Encoded:
    """`blobs` hold the state's own tensors and arrays, not copies. Raises Unsavable."""
    encoder = _Encoder()
    try:
        with collector.resting():
            tree = encoder.node(state, "")
    except RecursionError as error:
        raise Unsavable("the state: it is saved too deep in the program's stack to be walked through") from error
    return Encoded(tree, tuple(encoder.blobs))


class _Encoder:
    def __init__(self) -> None:
        self.blobs = list[Blob]()
        self._paths = {"__metadata__"}  # a reserved word of the safetensors header
        self._above = list[int]()
        """Containers that the walk is inside of, by id."""
        self._tensors = dict[int, int]()
        """Address of the first element -> the first blob that begins there."""
        self._more = dict[int, list[int]]()
        """And those after it: views of other shapes."""
        self._arrays = dict[int, tuple[int, Any]]()
        """id -> blob, and the array itself, so that no other one gets its id."""
        self._forms = self._forms_of_loaded_kinds()

    def _forms_of_loaded_kinds(self) -> dict[type[Any], Callable[[Any, str], Any]]:
        forms: dict[type[Any], Callable[[Any, str], Any]] = {
            type(None): _itself,
            bool: _itself,
            int: lambda value, _: plain.from_int(value),
            float: lambda value, _: plain.from_float(value),
            str: lambda value, _: plain.from_text(value),
            bytes: lambda value, _: {"$bytes": plain.from_bytes(value)},
            bytearray: lambda value, _: {"$bytearray": plain.from_bytes(value)},
            complex: lambda value, _: {"$complex": [plain.from_float(value.real), plain.from_float(value.imag)]},
            dict: self._dict,
            list: self._items,
            tuple: lambda value, path: {"$tuple": self._items(value, path)},
            OrderedDict: self._ordered,
            Counter: lambda value, path: {"$counter": self._pairs(value, path)},
            defaultdict: self._default,
            deque: lambda value, path: {"$deque": [value.maxlen, self._items(value, path)]},
        }
        if numpy := sys.modules.get("numpy"):
            forms[numpy.ndarray] = self._array
        if torch := sys.modules.get("torch"):
            self._strided, self._names = torch.strided, kinds.tensor_dtypes()
            forms[torch.Tensor] = forms[torch.nn.Parameter] = self._tensor
            forms[torch.Size] = lambda value, _: {"$size": list(value)}
            forms[torch.dtype] = lambda value, _: {"$dtype": str(value).removeprefix("torch.")}
            forms[torch.device] = lambda value, _: {"$device": str(value)}
        return forms

    def node(self, value: Any, path: str) -> Any:
        return self._forms.get(type(value), self._other)(value, path)

    def _tensor(self, value: Any, path: str) -> Any:
        try:  # a tensor of another kind has no address, or no shape
            name, shape, address = self._names[value.dtype], value.shape, value.data_ptr()
        except (KeyError, RuntimeError):
            raise refused.unsavable(value, path) from None
        if value.layout is not self._strided:
            raise refused.unsavable(value, path)
        index = len(self.blobs)
        if not address:
            if value.is_meta or value.numel():
                raise refused.unsavable(value, path)
        elif (first := self._tensors.setdefault(address, index)) != index:
            others = self._more.setdefault(address, [])
            for each in (first, *others):
                if kinds.is_same(self.blobs[each].value, value):
                    return {"$tensor": each}
            others.append(index)
        self._place(path, "tensor", name, shape, value)
        return {"$tensor": index}

    def _array(self, value: Any, path: str) -> Any:
        form = kinds.array_form(value)
        if form is None:
            raise refused.unsavable(value, path)
        dtype, array, view = form
        if id(value) not in self._arrays:
            self._arrays[id(value)] = self._place(path, "array", dtype, tuple(array.shape), array), value
        found = {"$array": self._arrays[id(value)][0]}
        return {"$view": [view, found]} if view else found

    def _place(self, path: str, kind: str, dtype: str, shape: tuple[int, ...], value: Any) -> int:
        index = len(self.blobs)
        if path in self._paths or not (path.isascii() or plain.is_text(path)):  # {"a/b": x, "a": {"b": y}}
            path = f"{path.encode('utf-8', 'backslashreplace').decode()}#{index}"
            while path in self._paths:
                path += "#"
        self._paths.add(path)
        self.blobs.append(Blob(path, kind, dtype, shape, value))
        return index

    def _dict(self, value: dict[Any, Any], path: str) -> Any:
        if not plain.are_names(value):
            return {"$dict": self._pairs(value, path)}
        prefix = f"{path}/" if path else ""
        self._enter(value, path)
        found = self._together(value, prefix) if len(value) >= together.WORTH_TOGETHER else None
        if found is None:
            found = dict[str, Any]()
            for key, item in value.items():  # as `node`, without a call for each
                form = self._forms.get(type(item), self._other)
                found[key] = form(item, prefix + key)
        self._above.pop()
        return found

    def _together(self, value: dict[str, Any], prefix: str) -> dict[str, Any] | None:
        first = len(self.blobs)
        looked_at = together.tensors(value, prefix, self._tensors.keys(), self._paths)
        if looked_at is None:
            return None
        blobs, addresses = looked_at
        self.blobs += blobs
        self._paths.update(blob.path for blob in blobs)
        self._tensors |= zip(addresses, range(first, first + len(blobs)), strict=True)
        return {key: {"$tensor": index} for index, key in enumerate(value, first)}

    def _pairs(self, value: dict[Any, Any], path: str) -> list[list[Any]]:
        prefix = f"{path}/" if path else ""
        self._enter(value, path)
        found = [[self._key(key, path := prefix + _word(key)), self.node(item, path)] for key, item in value.items()]
        self._above.pop()
        return found

    def _key(self, key: Any, path: str) -> Any:
        refused.refuse_tensor_as_key(key, path)
        return self.node(key, f"{path} (the key)")

    def _items(self, value: Collection[Any], path: str) -> list[Any]:
        prefix = f"{path}/" if path else ""
        self._enter(value, path)
        if plain.are_short_ints(value):
            found = list(value)
        else:
            found = [self.node(item, f"{prefix}{index}") for index, item in enumerate(value)]
        self._above.pop()
        return found

    def _ordered(self, value: OrderedDict[Any, Any], path: str) -> Any:
        """A module's state_dict() carries the versions of its submodules in an attribute."""
        pairs = self._pairs(value, path)
        if attributes := vars(value):
            return {"$attributed": [{"$ordered": pairs}, self.node(attributes, f"{path} (attributes)")]}
        return {"$ordered": pairs}

    def _default(self, value: defaultdict[Any, Any], path: str) -> Any:
        name = plain.FACTORY_NAMES.get(cast("Any", value.default_factory))
        if name is None:
            raise Unsavable(
                f"{refused.told(path)}: a defaultdict that makes missing keys by {value.default_factory!r} cannot be "
                f"saved; by {', '.join(plain.FACTORIES)} it can. Give dict(...) of it"
            )
        return {"$default": [name, self._pairs(value, path)]}

    def _other(self, value: Any, path: str) -> Any:
        if found := registered.mark_and_name(type(value)):
            self._enter(value, path)
            form = self._registered(value, path, *found)
            self._above.pop()
            return form
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic) and (scalar := kinds.scalar_form(value)):
            return {"$scalar": [scalar[0], plain.from_bytes(scalar[1])]}
        raise refused.unsavable(value, path)

    def _registered(self, value: Any, path: str, mark: str, name: str) -> Any:
        if mark == "$enum":
            return {mark: [name, registered.stored_member(value)]}
        if mark == "$record":
            try:
                return {mark: [name, self._dict(registered.fields_of(value), path)]}
            except registered.Changed as more:
                raise Unsavable(f"{refused.told(path)}: a {name} {more}") from None
        names, context = value.__tensor_flatten__()
        inner = self._dict({each: getattr(value, each) for each in names}, path)
        context = self.node(context, f"{path} (context)")
        return {mark: [name, inner, context, list(value.shape), list(value.stride())]}

    def _enter(self, container: Any, path: str) -> None:
        if id(container) in self._above:
            raise Unsavable(f"{refused.told(path)}: it holds itself, and would have no end")
        if len(self._above) >= MAX_DEPTH:
            raise Unsavable(f"{refused.told(path[:200])}: containers lie more than {MAX_DEPTH} deep in each other")
        self._above.append(id(container))


def _itself(value: Any, _path: str) -> Any:
    return value


def _word(key: Any) -> str:
    """A key in a path."""
    try:
        return str(key)
    except ValueError:  # it has more digits than Python is ready to print
        return f"a long {type(key).__name__}"
