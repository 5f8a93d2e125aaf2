"""What a row of the table means: how many bytes it has, and the tensor or array over memory that holds them."""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import TYPE_CHECKING, Any

from app.checkpoint.manifest import Unsupported
from app.checkpoint.shards.safetensors_file import ALIGNMENT_BYTES
from app.checkpoint.state import kinds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from mmap import mmap

    import torch

    from app.checkpoint.shards.shard_plan import Homes
    from app.checkpoint.table import Place

_KEPT_BYTES = 2**20
"""A smaller array gets memory of its own: one that is kept for long must not hold its neighbours."""


def size_bytes(kind: str, dtype: str, shape: tuple[int, ...]) -> int:
    """Of a place's form. Raises ValueError for no state of ours, Unsupported for a dtype of another torch."""
    return math.prod(shape) * _item_bytes(kind, dtype)


@cache
def _item_bytes(kind: str, dtype: str) -> int:
    if kind not in {"tensor", "array"}:
        raise ValueError(f"a {kind} in the table")
    return (_torch_dtype(dtype) if kind == "tensor" else _numpy_dtype(dtype)).itemsize


class Found(dict[int, Any]):
    """Row of the table -> its tensor or array. One that occurs twice in the tree is one tensor again.

    Tensors are made at once, in one loop: 0.9 us each, of which torch has 0.65; by a call for each it were 2.
    """

    def __init__(self, places: Sequence[Place], homes: Homes, given: Mapping[int, Any]) -> None:
        """`given`: those that lie elsewhere than at a home."""
        super().__init__(given)
        self._places, self._homes = places, homes
        frombuffer: Any = None
        last: tuple[str, tuple[int, ...]] = "", ()
        torch_dtype, count, flat = None, 0, True
        for row, (memory, begin) in homes.items():
            _path, kind, dtype, shape, _shard, _begin = places[row]
            if kind != "tensor" or begin % ALIGNMENT_BYTES:
                continue  # `over` makes it when it is asked for
            if (dtype, shape) != last:
                from torch import frombuffer

                last, torch_dtype, count, flat = (dtype, shape), _torch_dtype(dtype), math.prod(shape), len(shape) == 1
            made = frombuffer(memory, dtype=torch_dtype, count=count, offset=begin)
            self[row] = made if flat else made.view(shape)

    def __missing__(self, row: int) -> Any:
        place, home = self._places[row], self._homes.get(row)
        value = self[row] = over(place, *home) if home else empty(place)
        return value


def over(place: Place, memory: mmap, begin: int) -> Any:
    """The tensor or array whose bytes begin there. Raises ValueError, OverflowError or RuntimeError for odd shapes."""
    if place.kind == "array":
        import numpy as np

        dtype, count = _numpy_dtype(place.dtype), math.prod(place.shape)
        array = np.frombuffer(memory, dtype, count=count, offset=begin).reshape(place.shape)
        return array if array.nbytes >= _KEPT_BYTES else array.copy()
    import torch

    dtype, count = _torch_dtype(place.dtype), math.prod(place.shape)
    if begin % ALIGNMENT_BYTES:  # the last bits of a dot product may depend on it (likely, not isolated)
        raw = torch.frombuffer(memory, dtype=torch.uint8, count=count * dtype.itemsize, offset=begin)
        return raw.clone().view(dtype).view(place.shape)
    flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=begin)
    return flat if len(place.shape) == 1 else flat.view(place.shape)


def empty(place: Place) -> Any:
    """One of no bytes. Raises as `over`."""
    if place.kind == "array":
        import numpy as np

        return np.empty(place.shape, _numpy_dtype(place.dtype))
    import torch

    return torch.empty(place.shape, dtype=_torch_dtype(place.dtype))


def memory_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor that can be filled, to be written; it must live as long. A tenth of the time by numpy."""
    return memoryview((ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


def can_be_filled(tensor: torch.Tensor, place: Place) -> bool:
    """Whether the bytes of `place`, laid into its memory, are its values."""
    return (
        lies_plainly(tensor)
        and tuple(tensor.shape) == place.shape
        and place.kind == "tensor"
        and tensor.dtype == _torch_dtype(place.dtype)
    )


def lies_plainly(value: Any) -> bool:
    """Whether it is a tensor whose memory is its bytes, in order, on the host. Of a subclass that is not known."""
    plain, strided = _plain()
    return (
        type(value) in plain
        and value.is_cpu
        and value.layout is strided
        and value.is_contiguous()
        and not (value.is_conj() or value.is_neg())
    )


@cache
def _plain() -> tuple[frozenset[type[Any]], torch.layout]:
    """Kept, because every tensor of a restore is asked three times."""
    import torch

    return frozenset({torch.Tensor, torch.nn.Parameter}), torch.strided


@cache
def _numpy_dtype(name: str) -> Any:
    import numpy as np

    dtype = np.dtype(name)
    if dtype.kind not in "biufc":
        raise ValueError(f"an array of dtype {name}")
    return dtype


@cache
def _torch_dtype(name: str) -> torch.dtype:
    import torch

    if not hasattr(torch, name) and name.isidentifier():
        raise Unsupported(f"a tensor in it is of dtype {name}, which torch {torch.__version__} does not have")
    return kinds.torch_dtype(name)
