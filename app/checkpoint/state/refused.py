"""Why a value cannot be saved and what to give instead, for the person who reads it at the start of a run."""

from __future__ import annotations

import dataclasses
import enum
import sys
from typing import Any, cast

from app.checkpoint.state import kinds
from app.checkpoint.state.blob import Unsavable

_PLAIN = (str, int, float, bytes, dict, list, tuple)
_REGISTER = 'app.checkpoint.codec.register("A_NAME_THAT_STAYS", {})'


def unsavable(value: Any, path: str) -> Unsavable:
    return Unsavable(f"{told(path)}: {_why(value)}")


def refuse_tensor_as_key(key: Any, path: str) -> None:
    """In a tuple, too. Raises Unsavable."""
    torch = sys.modules.get("torch")
    if isinstance(key, tuple):
        for each in cast("tuple[Any, ...]", key):
            refuse_tensor_as_key(each, path)
    elif torch is not None and isinstance(key, torch.Tensor):
        raise Unsavable(
            f"{told(path)}: a tensor is the key, and would come back as another one. Give a state_dict(), which has "
            "numbers or names in its place"
        )


def told(path: str) -> str:
    return path or "the state"


def _why(value: Any) -> str:  # noqa: PLR0911 - one return a reason
    cls = type(value)
    kind = f"{cls.__module__}.{cls.__qualname__}"
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return f"a tensor {_why_tensor(torch, value)}"
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        if isinstance(value, numpy.ndarray) and cls is not numpy.ndarray:
            return f"a {kind} would come back as a plain array; give numpy.asarray(...) of it"
        what = "array" if isinstance(value, numpy.ndarray) else "scalar"
        return f"a numpy {what} of dtype {value.dtype} cannot be saved; convert it to numbers or to plain values"
    if isinstance(value, enum.Enum) or dataclasses.is_dataclass(cls) or hasattr(cls, "_fields"):
        return f"a {kind} cannot be saved unless its class is registered: {_REGISTER.format(cls.__qualname__)}"
    for plain in _PLAIN:
        if isinstance(value, plain):
            return f"a {kind} would come back as a plain {plain.__name__}; give {plain.__name__}(...) of it"
    if isinstance(value, (set, frozenset)):
        return "a set has no order to be saved in; give a sorted list"
    return (
        f"a {kind} cannot be saved. A checkpoint holds tensors, numbers, text, bytes, None, and dicts, lists and "
        "tuples of them; give its state_dict() instead"
    )


def _why_tensor(torch: Any, value: Any) -> str:
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return (
            f"of class {type(value).__module__}.{type(value).__qualname__} cannot be saved as it is. Give a plain "
            f"tensor, or, if it has __tensor_flatten__, register it: {_REGISTER.format(type(value).__qualname__)}"
        )
    if value.is_nested:
        return "that is nested cannot be saved; give its parts"
    if value.layout is not torch.strided:
        return f"of layout {value.layout} cannot be saved; make it dense, or give its indices and values"
    if value.dtype not in kinds.tensor_dtypes():
        return f"of dtype {value.dtype} cannot be saved; give its values as another dtype, and what else they need"
    if value.is_meta:
        return "on the meta device has no data to be saved"
    return "has no data to be saved: its memory was freed, or it is inside a function transform"
