"""Whether two states are the same to the bit: types, order of keys, signs of zero, nan, shapes and dtypes included."""

from __future__ import annotations

import dataclasses
import math
import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tests.engine.packed import Packed


def difference(a: Any, b: Any, path: str = "state") -> str | None:  # noqa: PLR0911 - one return a kind of value
    """The first place where the two differ, in words; None where they are the same.

    A parameter and a buffer are tensors; nan is nan whatever its payload, in plain floats only.
    """
    if isinstance(a, Packed) and isinstance(b, Packed):
        return difference((a.dtype, a.data8, a.scale), (b.dtype, b.data8, b.scale), path)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return None if _bits(a) == _bits(b) else f"{path}: {_told(a)} and {_told(b)}"
    if type(a) is not type(b):
        return f"{path}: {type(a).__name__} and {type(b).__name__}"
    if isinstance(a, (np.ndarray, np.generic)):
        same = (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        return None if same else f"{path}: {a.dtype} {a!r} and {b.dtype} {b!r}"
    if isinstance(a, float):
        same = math.isnan(b) if math.isnan(a) else struct.pack("<d", a) == struct.pack("<d", b)
        return None if same else f"{path}: {a!r} and {b!r}"
    if isinstance(a, complex):
        return difference((a.real, a.imag), (b.real, b.imag), path)
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return difference(vars(a), vars(b), path)
    if isinstance(a, (OrderedDict, defaultdict, deque)):
        about = [getattr(each, name, None) for each in (a, b) for name in ("__dict__", "default_factory", "maxlen")]
        if about[:3] != about[3:]:
            return f"{path}: {about}"
    if isinstance(a, Mapping):
        keys = difference(list(a), list(b), f"{path} keys")
        return keys or _first(zip(a.values(), b.values(), strict=True), path)
    if isinstance(a, (list, tuple, deque)):
        return _first(zip(a, b, strict=True), path) if len(a) == len(b) else f"{path}: {len(a)} and {len(b)} items"
    return None if a == b else f"{path}: {a!r} and {b!r}"


def _first(pairs: Any, path: str) -> str | None:
    found = (difference(a, b, f"{path}/{index}") for index, (a, b) in enumerate(pairs))
    return next((each for each in found if each), None)


def _bits(tensor: torch.Tensor) -> tuple[Any, ...]:
    if not tensor.numel():
        return tensor.dtype, tensor.shape
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return tensor.dtype, tensor.shape, flat.as_strided((flat.numel(),), (1,)).view(torch.uint8).numpy().tobytes()


def _told(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
