"""Which torch and numpy values have bytes that mean the same elsewhere, and by which name.

Nothing is imported here: a kind that the process has not loaded does not occur in its state.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

ARRAY_DTYPES = frozenset(
    [
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    ]
)
"""numpy's long double is not among them: its bytes mean something else on another processor."""

_TENSOR_DTYPE = re.compile(r"bool|u?int(8|16|32|64)|b?float\w+|b?complex\d+")
"""Not the quantized ones, which mean nothing without their scale, nor those of less than a byte."""
_DATED = re.compile(r"<[mM]8(\[\w+\])?")
_SWAPPED = re.compile(r">[iufc]\d+")


@cache
def tensor_dtypes() -> dict[Any, str]:
    """torch's dtypes that can be saved, and their names. Needs torch."""
    import torch

    found = {each for name in dir(torch) if isinstance(each := getattr(torch, name), torch.dtype)}
    names = {dtype: str(dtype).removeprefix("torch.") for dtype in found}
    return {dtype: name for dtype, name in names.items() if _TENSOR_DTYPE.fullmatch(name)}


def is_same(a: Any, b: Any) -> bool:
    """Whether two tensors that begin at the same address are one. A conjugated view differs in nothing but that."""
    if a is b:
        return True
    layout = (a.dtype, a.shape, a.stride(), a.device) == (b.dtype, b.shape, b.stride(), b.device)
    return layout and (a.is_conj(), a.is_neg()) == (b.is_conj(), b.is_neg())


def array_form(array: Any) -> tuple[str, Any, str | None] | None:
    """Its bytes' dtype, the array to take them from, and as what it must be viewed again; None where it has no form."""
    dtype = array.dtype
    if dtype.name in ARRAY_DTYPES and dtype.isnative:
        return dtype.name, array, None
    if _DATED.fullmatch(dtype.str):
        return "int64", array.view("int64"), dtype.str
    if dtype.name in ARRAY_DTYPES and _SWAPPED.fullmatch(dtype.str):
        return dtype.name, array.view(dtype.name), dtype.str
    return None


def viewed(array: Any, dtype: str) -> Any:
    """The other way. Raises ValueError for a dtype that is none of those, TypeError for what cannot be viewed so."""
    if not (_DATED.fullmatch(dtype) or _SWAPPED.fullmatch(dtype)):
        raise ValueError(f"{dtype[:40]!r} is no dtype to view as")
    return array.view(dtype)


def scalar_form(value: Any) -> tuple[str, bytes] | None:
    """A numpy scalar's dtype and bytes."""
    dtype = value.dtype
    if dtype.name in ARRAY_DTYPES or _DATED.fullmatch(dtype.str):
        return dtype.name if dtype.name in ARRAY_DTYPES else dtype.str, value.tobytes()
    return None


def scalar(dtype: str, content: bytes) -> Any:
    """The other way. Raises ValueError, TypeError."""
    import numpy as np

    if dtype not in ARRAY_DTYPES and not _DATED.fullmatch(dtype):
        raise ValueError(f"{dtype[:40]!r} is no dtype of a scalar")
    (value,) = np.frombuffer(content, dtype)
    return value


def torch_dtype(name: str) -> Any:
    """`bfloat16` -> torch.bfloat16, quantized ones too. Raises ValueError."""
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or str(found) != f"torch.{name}":
        raise ValueError(f"torch has no dtype {name[:40]!r}")
    return found
