"""What lies in each golden line, built anew in code: every kind of value that its format had a form for."""

from __future__ import annotations

import dataclasses
import enum
import random
from collections import Counter, OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from app.checkpoint import codec
from tests.engine.packed import Packed

if TYPE_CHECKING:
    from collections.abc import Callable

STEP = 20
"""Of the newest sound checkpoint of a golden line."""

TENSORS_1 = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"),
)
ARRAYS_1 = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def format_1() -> dict[str, Any]:
    """Integers, text, bytes, containers, tensors and arrays of every dtype, tied and strided ones."""
    base = torch.arange(12.0).reshape(3, 4)
    shared = torch.tensor([0.5, -0.0, float("nan")])
    return {
        "step": STEP,
        "rng": {"python": random.Random(3).getstate(), "numpy": np.random.RandomState(3).get_state()},
        "plain": [None, True, False, 0, -1, 2**53 + 1, 2**127, -(10**400), 0.1, -0.0, 5e-324, 1e308],
        "not finite": [float("nan"), float("inf"), float("-inf")],
        "text": ["", "ünï", "\x00", "$tensor", "\U0001f40e", "lone \ud800 surrogate"],
        "bytes": [b"", b"\x00\xff{}"],
        "containers": [[], (), {}, (1, (2, [3, ()])), OrderedDict([("b", 1), ("a", 2)]), Counter("abca")],
        "keys": {0: "a", 1: {2: "b"}, "0": "c", (0, "x"): 1.5, None: 2, b"k": 3, 0.5: 4},
        "bool keys": {True: 1, False: 0},
        "dollar": {"$tensor": 0, "$x": {"$tuple": []}},
        "slash/": {"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}},
        "__metadata__": torch.full((1,), 2.0),
        "tensors": {dtype: _tensor(dtype) for dtype in TENSORS_1},
        "shapes": [torch.tensor(7), torch.empty(0), torch.empty(0, 3), torch.ones(1, 2, 1)],
        "strided": [base.T, base[::2, 1:], base[:1].expand(2, 4), torch.tensor([1 + 2j]).conj(), base[0]],
        "tied": {"a": shared, "b": shared},
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "arrays": {dtype: _array(dtype) for dtype in ARRAYS_1},
        "array shapes": [np.array(7), np.empty((0, 3)), np.asfortranarray(np.arange(6).reshape(2, 3))],
        "scalars": [np.float16(0.1), np.int64(-5), np.bool_(True), np.complex64(1j)],
    }


@codec.register("golden.phase")
class Phase(enum.Enum):
    DECAY = "decay"


@codec.register("golden.parts")
class Parts(enum.Flag):
    A = 1
    B = 2


@codec.register("golden.point")
class Point(NamedTuple):
    x: Any
    y: Any


@codec.register("golden.plan")
@dataclasses.dataclass
class Plan:
    phase: Phase
    weights: torch.Tensor


codec.register("golden.packed", Packed)


def format_2() -> dict[str, Any]:
    """All of format 1's, and what there was no form for: long integers, odd text, dates, registered classes."""
    value = torch.tensor([1 + 2j, 3 - 4j])
    high, low = chr(0xD83D), chr(0xDE00)
    packed = Packed(torch.tensor([[1, -2]], dtype=torch.int8), torch.tensor(0.5), torch.bfloat16)
    return {
        **format_1(),
        "long": [10**5000, -(2**2048), {10**700: 1}],
        "surrogates": [high + low, {low: torch.ones(1), high: 1}],
        "nan as a key": {float("nan"): 1, (float("-inf"), -0.0): 2},
        "mutable": [bytearray(b"\xff"), deque([1, (2,)], maxlen=5), deque(), defaultdict(list, {1: [2]}, a=[])],
        "complex": [complex(-0.0, float("inf")), complex(float("nan"), 1)],
        "torch's words": [torch.Size([]), torch.Size([0, 7]), torch.bfloat16, torch.device("cuda:3")],
        "views": [value, value.conj(), value.imag, value.conj().imag],
        "dates": [np.datetime64("NaT"), np.datetime64("2024-02-29T12:00:00.000000001"), np.timedelta64(3, "25s")],
        "arrays of dates": [np.array(["2024-02-29", "NaT"], dtype="M8[D]"), np.zeros((0, 2), dtype="m8[us]")],
        "big-endian": [np.arange(6, dtype=">i4").reshape(2, 3).T, np.array(1.5, dtype=">f8")],
        "numpy's numbers": [np.bool_(False), np.uint64(2**64 - 1), np.float16("nan"), np.complex128(1j)],
        "module": torch.nn.BatchNorm1d(2).state_dict(),
        "registered": [Phase.DECAY, Parts.A | Parts.B, Point(1, Point(2, None)), Plan(Phase.DECAY, torch.ones(2))],
        "keys that are registered": {Phase.DECAY: 1, Point(1, 2): 2},
        "subclass": {"one": packed, "other": Packed(packed.data8 + 1, packed.scale, torch.float16)},
    }


def format_2_frozen() -> dict[str, Any]:
    """Some of it lies in shards of the checkpoint before."""
    shared = torch.arange(3.0)
    return {
        "step": STEP,
        "rng": {"python": random.Random(3).getstate()},
        "frozen": {"weight": torch.arange(64.0).reshape(8, 8), "scale": np.float32(2), "bias": torch.ones(8)},
        "trained": torch.full((5,), 0.5),
        "tied": {"a": shared, "b": shared},
    }


def _tensor(dtype: str) -> torch.Tensor:
    """Two rows of three values with bytes 0, 1, 2, ... (0 and 1 in turn for bool)."""
    kind = getattr(torch, dtype)
    raw = torch.arange(6 * kind.itemsize, dtype=torch.uint8)
    return (raw % 2 if dtype == "bool" else raw).view(kind).reshape(2, 3)


def _array(dtype: str) -> np.ndarray[Any, Any]:
    raw = np.arange(6 * np.dtype(dtype).itemsize, dtype=np.uint8)
    return (raw % 2 if dtype == "bool" else raw).view(dtype).reshape(2, 3)


STATES: dict[str, Callable[[], dict[str, Any]]] = {
    "format-1": format_1,
    "format-2": format_2,
    "format-2-frozen": format_2_frozen,
}
"""Folder of a golden line -> the state of its step STEP."""
