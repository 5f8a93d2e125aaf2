"""What comes back of each odd value, and what is refused: with its path, and with what to give instead."""

from __future__ import annotations

import collections
import subprocess
import sys
import time
from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from app.checkpoint import codec
from app.checkpoint.codec import Unsavable
from app.checkpoint.state import kinds
from app.checkpoint.state.encoding import MAX_DEPTH
from tests.engine.lines import round_trip
from tests.engine.same import difference

EVERY_DTYPE = sorted({each for name in dir(torch) if isinstance(each := getattr(torch, name), torch.dtype)}, key=str)
WITHOUT_BYTES_OF_THEIR_OWN = ("torch.q", "torch.bits", *(f"torch.{u}int{n}" for u in ("", "u") for n in range(1, 8)))


def has_bytes(dtype: torch.dtype) -> bool:
    name = str(dtype)
    return not name.startswith(("torch.q", "torch.bits")) and name not in WITHOUT_BYTES_OF_THEIR_OWN


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=str)
def test_every_dtype_that_torch_has_is_saved_exactly_or_refused_with_its_path(store, dtype):
    if not has_bytes(dtype):
        with pytest.raises(Unsavable, match=r"^a/t: .*dtype"):
            codec.encode({"a": {"t": torch.empty(3, dtype=dtype)}})
        return
    raw = torch.arange(12 * dtype.itemsize, dtype=torch.uint8)
    tensor = (raw % 2 if dtype is torch.bool else raw).view(dtype).reshape(3, 4)
    state = {"t": tensor, "turned": tensor.T, "part": tensor[1:, ::2], "0-d": tensor[0, 0], "none": tensor[:0]}
    state |= {"none of every second": tensor[:0, 0][::2], "one of every second": tensor[:1, :1][::2, ::2]}
    state["one by odd strides"] = tensor.as_strided((1, 1), (7, 3))
    state["spread"] = tensor[:1].expand(2, 4)
    assert difference(round_trip(store, state), state) is None


def test_the_dtypes_that_are_saved_are_those_with_bytes_of_their_own():
    assert set(kinds.tensor_dtypes()) == {dtype for dtype in EVERY_DTYPE if has_bytes(dtype)}


def test_a_parameter_comes_back_as_a_plain_tensor_that_wants_no_gradient(store):
    layer = nn.Linear(2, 2)
    restored = round_trip(store, {"p": layer.weight, "computed": layer.weight * 2})
    assert [(type(each), each.requires_grad) for each in restored.values()] == [(torch.Tensor, False)] * 2


def test_views_of_one_memory_are_one_tensor_only_where_they_are_the_same_view(store):
    base = torch.arange(8.0)
    state = {
        **{"a": base, "a again": base.view(8), "its data": nn.Parameter(base).data},
        **{"part": base[:4], "shifted": base[2:6], "shaped": base.view(2, 4), "other type": base.view(torch.int32)},
    }
    encoded = codec.encode(state)
    assert [blob.path for blob in encoded.blobs] == ["a", "part", "shifted", "shaped", "other type"]
    restored = round_trip(store, state)
    assert difference(restored, state) is None
    assert restored["a"] is restored["a again"] is restored["its data"]
    restored["a"].zero_()
    assert restored["part"].tolist() == [0, 1, 2, 3], "overlapping views have bytes of their own"


def test_a_conjugated_or_negated_view_is_not_taken_for_what_it_is_a_view_of(store):
    value = torch.tensor([1 + 2j, 3 - 4j])
    state = {"z": value, "conj": value.conj(), "imag": value.imag, "neg": value.conj().imag}
    restored = round_trip(store, state)
    assert difference(restored, state) is None
    assert restored["conj"].tolist() == [1 - 2j, 3 + 4j]


def test_a_modules_state_keeps_the_versions_of_its_parts(store):
    saved = nn.BatchNorm1d(2).state_dict()
    assert round_trip(store, saved)._metadata == saved._metadata == OrderedDict({"": {"version": 2}})


LONG = 10**5000
HIGH, LOW = chr(0xD83D), chr(0xDE00)
VALUES = {
    "many integers": [list(range(700)), (1, 2**2048 - 1), deque([1, 2**2048]), [1, True], (2**64, LONG)],
    "long integers": [LONG, -LONG, 2**2048, -(2**2048) - 1, {LONG: (LONG,)}],
    "lone surrogates": [HIGH + LOW, LOW, {HIGH + LOW: 1, LOW + HIGH: torch.ones(1)}],
    "nan with a payload": np.frombuffer(b"\x01\0\0\0\0\0\xf8\xff")[0].item(),
    "nan as a key": {float("nan"): 1, (float("-inf"), -0.0): 2},
    "true and one": [{True: "a"}, {1: "a"}, {1.0: "a"}, {"1": "a"}],
    "text with a mark": ["$tensor", {"$tensor": 1}, {"a$": 1, "": 2}],
    "bytes": [b"\xff", bytearray(b"\xff")],
    "complex": [complex(-0.0, float("inf")), complex(float("nan"), 1)],
    "containers": [deque([1, (2,)], maxlen=5), deque(), defaultdict(list, {1: [2]}), defaultdict(None, a=1)],
    "torch's words": [torch.Size([]), torch.Size([0, 2**62]), torch.qint8, torch.bfloat16, torch.device("cuda:3")],
    "numpy's clock": [np.datetime64("NaT"), np.datetime64("2024-02-29T12:00:00.000000001"), np.timedelta64(3, "25s")],
    "arrays of dates": [np.array(["2024-02-29", "NaT"], dtype="M8[D]"), np.zeros((0, 2), dtype="m8[us]")],
    "big-endian": [np.arange(6, dtype=">i4").reshape(2, 3).T, np.array(1.5, dtype=">f8"), np.ones(1, dtype=">c8")],
    "odd arrays": [
        np.empty((2, 0)),
        np.array(3),
        np.asfortranarray(np.eye(3)[::2]),
        np.broadcast_to(np.ones(2), (3, 2)),
    ],
    "numpy's numbers": [np.bool_(False), np.uint64(2**64 - 1), np.float16("nan"), np.complex128(1j), np.float64(-0.0)],
    "numpy's generators": [np.random.RandomState(1).get_state(), np.random.Philox(1).state, np.random.SFC64(2).state],
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_odd_values_come_back_the_same(store, value):
    assert difference(round_trip(store, {"v": value}), {"v": value}) is None


@pytest.mark.parametrize("limit", [640, 0])
def test_long_integers_do_not_depend_on_pythons_limit_of_digits(store, limit):
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        restored = round_trip(store, {"i": [7**700, LONG]})["i"]
    finally:
        sys.set_int_max_str_digits(before)
    assert restored == [7**700, LONG]


class Text(str):
    __slots__ = ()


class Record(dict): ...


class Odd(torch.Tensor): ...


def holds_itself(container: Any) -> Any:
    (container.append if isinstance(container, list) else lambda it: container.update(me=it))(container)
    return container


def tuple_that_holds_itself() -> tuple[Any, ...]:
    inside: list[Any] = []
    inside.append((inside,))
    return inside[0]


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def freed() -> torch.Tensor:
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


REFUSED = {
    "a subclass of str": (lambda: Text("x"), "plain str"),
    "a subclass of dict": (Record, "plain dict"),
    "a set": (lambda: {1}, "sorted list"),
    "a tensor as a key": (lambda: {(torch.ones(1), 2): 1}, "a tensor is the key"),
    "a list that holds itself": (lambda: holds_itself([]), "/0: it holds itself"),
    "a dict that holds itself": (lambda: holds_itself({}), "/me: it holds itself"),
    "a tuple that holds itself": (tuple_that_holds_itself, "/0/0: it holds itself"),
    "what is nested too deep": (lambda: nested(MAX_DEPTH), "deep"),
    "what is nested without end": (lambda: nested(100_000), "deep"),
    "a defaultdict of its own making": (lambda: defaultdict(lambda: 1), "defaultdict"),
    "a meta tensor": (lambda: torch.empty(2, device="meta"), "meta"),
    "an empty meta tensor": (lambda: torch.empty(0, device="meta"), "meta"),
    "a sparse tensor": (lambda: torch.eye(2).to_sparse(), "sparse"),
    "a sparse tensor by rows": (lambda: torch.eye(2).to_sparse_csr(), "sparse"),
    "a nested tensor": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"),
    "a quantized tensor": (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "qint8"),
    "a tensor of another class": (lambda: torch.ones(2).as_subclass(Odd), "Odd"),
    "a parameter without a shape": (nn.UninitializedParameter, "UninitializedParameter"),
    "a tensor whose memory was freed": (freed, "no data"),
    "a numpy array of objects": (lambda: np.array([None]), "object"),
    "a numpy array of text": (lambda: np.array(["x"]), "<U1"),
    "a structured array": (lambda: np.zeros(2, dtype="i4,f4"), "f0"),
    "a long double": (lambda: np.ones(2, dtype=np.longdouble), "dtype"),
    "a matrix": (lambda: np.matrix([1]), "plain array"),
    "a masked array": (lambda: np.ma.array([1]), "plain array"),
    "text of numpy": (lambda: np.str_("x"), "<U1"),
    "a mapping of another class": (collections.UserDict, "UserDict"),
    "a function": (lambda: len, "state_dict"),
    "a generator": (torch.Generator, "Generator"),
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore:.*:PendingDeprecationWarning")
@pytest.mark.parametrize(("make", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_whatever_would_come_back_as_something_else_is_refused_with_its_path(make, told):
    with pytest.raises(Unsavable, match=r"^a/1") as refusal:
        codec.encode({"a": [0, make()]})
    assert told in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_inside_a_function_transform_a_tensor_has_no_bytes():
    def look(tensor: torch.Tensor) -> torch.Tensor:
        with pytest.raises(Unsavable, match=r"^t: "):
            codec.encode({"t": tensor})
        return tensor

    torch.vmap(look)(torch.ones(2, 2))


def test_containers_may_lie_as_deep_as_the_limit_whatever_their_kind(store):
    value: Any = 1
    for index in range(MAX_DEPTH - 1):
        value = [[value], (value,), {1: value}, OrderedDict(a=value)][index % 4]
    assert difference(round_trip(store, {"v": value}), {"v": value}) is None
    with pytest.raises(Unsavable, match="deep"):
        codec.encode({"v": [value]})
    numbers: Any = [1, 2]
    for _ in range(MAX_DEPTH - 1):
        numbers = [numbers]
    with pytest.raises(Unsavable, match="deep"):
        codec.encode({"v": numbers})


def test_a_program_that_is_deep_in_calls_gets_a_refusal_and_no_recursion_error():
    def sink(depth: int) -> None:
        if depth:
            sink(depth - 1)
        else:
            codec.encode(nested(MAX_DEPTH - 1))

    with pytest.raises((Unsavable, RecursionError)) as refusal:
        sink(sys.getrecursionlimit() - 150)
    assert refusal.type is Unsavable


def test_the_same_object_twice_is_no_cycle(store):
    shared = [1]
    assert round_trip(store, {"a": shared, "b": [shared, shared]}) == {"a": [1], "b": [[1], [1]]}


def test_a_state_without_tensors_is_saved_and_read_without_importing_torch_or_numpy():
    code = (
        "import sys; from app.checkpoint import codec; e = codec.encode({'a': [1, (2.5, 'x')], 'b': b'y'});"
        "assert codec.decode(e.tree, e.blobs.__getitem__) == {'a': [1, (2.5, 'x')], 'b': b'y'};"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_ten_thousand_tensors_cost_little_more_than_looking_at_them():
    """A ratio in one process: best of several, so that a busy machine does not decide."""
    state = {str(index): torch.empty(4, 4) for index in range(10_000)}

    def seconds(action: Any) -> float:
        began = time.perf_counter()
        action()
        return time.perf_counter() - began

    def look() -> list[Any]:
        return [(t.data_ptr(), t.dtype, tuple(t.shape), t.stride(), str(t.device)) for t in state.values()]

    pairs = [(seconds(lambda: codec.encode(state)), seconds(look)) for _ in range(7)]
    assert min(encoded for encoded, _ in pairs) < 6 * min(looked for _, looked in pairs)
