"""Random trees of every kind of value go through a real store and come back the same; random JSON does no harm."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.checkpoint import codec, reader, writer
from app.checkpoint.line import Line
from app.checkpoint.names import CheckpointName
from app.checkpoint.state import decoding, kinds, plain, registered
from app.checkpoint.storage.directory import DirectoryStore
from tests.crash.line_on_disk import Found
from tests.engine.lines import ORIGIN, attempt
from tests.engine.packed import Packed
from tests.engine.same import difference
from tests.golden import second_reader

FIXED = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), max_examples=120
)
"""The same examples each time."""


class Mode(enum.Enum):
    FAST = 1
    EXACT = "e"


class Pair(NamedTuple):
    first: Any
    second: Any = None


@dataclasses.dataclass
class Plan:
    notes: Any
    weights: Any = None


CLASSES: second_reader.Classes = {"mode": Mode, "pair": Pair, "plan": Plan, "packed": Packed}


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registered, "_BY_NAME", {})
        patch.setattr(registered, "_BY_CLASS", {})
        for name, cls in CLASSES.items():
            codec.register(name, cls)
        yield


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Line:
    return attempt(DirectoryStore(tmp_path_factory.mktemp("line")), 1)


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def raw(draw: st.DrawFn, itemsize: int, shape: tuple[int, ...], *, flags: bool) -> bytes:
    size = itemsize * math.prod(shape)
    found = draw(st.binary(min_size=size, max_size=size))
    return bytes(each % 2 for each in found) if flags else found


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any dtype, any bits; some transposed, expanded, conjugated or with a gradient."""
    dtype = draw(st.sampled_from(sorted(kinds.tensor_dtypes(), key=str)))
    shape = draw(SHAPES)
    content = draw(raw(dtype.itemsize, shape, flags=dtype is torch.bool))
    empty = torch.empty(shape, dtype=dtype)
    made = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype).reshape(shape) if content else empty
    change = draw(st.sampled_from(["none", "transposed", "expanded", "conjugated", "strided", "parameter"]))
    if change == "transposed" and made.dim() > 1:
        return made.transpose(0, 1)
    if change == "expanded":
        return made.expand(2, *shape)
    if change == "conjugated" and dtype in (torch.complex64, torch.complex128):
        return made.conj()
    if change == "strided" and made.dim():
        return made[::2]
    if change == "parameter" and dtype.is_floating_point:
        return torch.nn.Parameter(made, requires_grad=dtype in (torch.float32, torch.bfloat16))
    return made


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Any dtype, any bits, either byte order; some in Fortran order or strided, some scalars."""
    dtype = np.dtype(draw(st.sampled_from([*sorted(kinds.ARRAY_DTYPES), "<M8[ns]", "<m8[25s]", ">f4", ">i8", ">c16"])))
    shape = draw(SHAPES)
    made = np.frombuffer(draw(raw(dtype.itemsize, shape, flags=dtype.kind == "b")), dtype).reshape(shape)
    change = draw(st.sampled_from(["none", "Fortran", "strided", "scalar"]))
    if change == "Fortran":
        return np.asfortranarray(made)
    if change == "strided" and made.ndim:
        return made[..., ::2]
    if change == "scalar" and made.size:
        return made.reshape(-1)[0]
    return made


@st.composite
def packed(draw: st.DrawFn) -> Packed:
    values = draw(st.lists(st.integers(-128, 127), max_size=4))
    return Packed(torch.tensor(values, dtype=torch.int8), torch.tensor(draw(st.floats(width=32))), torch.float16)


TEXT = st.text(st.one_of(st.characters(), st.integers(0xD800, 0xDFFF).map(chr), st.just("$")), max_size=6)
NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.integers(1, 20_000).map(lambda bits: -(3**bits))
)
HASHABLE = st.recursive(
    st.one_of(NUMBERS, TEXT, st.binary(max_size=3), st.sampled_from(Mode), st.just(torch.bfloat16)),
    lambda inner: st.tuples(inner, inner) | st.builds(Pair, inner, inner),
    max_leaves=3,
)
LEAVES = st.one_of(
    *(NUMBERS, TEXT, st.binary(max_size=5), st.binary(max_size=5).map(bytearray), st.complex_numbers()),
    *(tensors(), tensors(), arrays(), arrays(), packed(), st.sampled_from(Mode)),
    *(SHAPES.map(torch.Size), st.sampled_from(sorted(kinds.tensor_dtypes(), key=str)), st.just(torch.device("cuda:1"))),
)


def nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.lists(inner, max_size=4)
    mapping = st.dictionaries(HASHABLE, inner, max_size=4)
    return st.one_of(
        *(items, items.map(tuple), st.dictionaries(TEXT, inner, max_size=4), mapping, mapping.map(OrderedDict)),
        *(mapping.map(Counter), st.builds(deque, items, st.none() | st.integers(4, 9))),
        st.builds(defaultdict, st.sampled_from([None, list, dict, int]), mapping),
        *(st.builds(Pair, inner, inner), st.builds(Plan, inner, inner)),
        inner.map(lambda value: [value, {"again": value}]),
    )


@FIXED
@given(state=st.recursive(LEAVES, nodes, max_leaves=25))
def test_any_tree_comes_back_the_same_and_is_written_as_the_page_says(line: Line, state: Any) -> None:
    step = next(STEPS)
    name = CheckpointName.of(line.attempt, step)
    writer.commit(line.store, name, codec.encode(state), ORIGIN)
    assert difference(reader.load(line.store, name).state, state) is None
    found = Found(name.epoch, name.step, name.save_try, str(name))
    assert difference(second_reader.state(line.store.root, found, CLASSES), state) is None


STEPS = itertools.count()

MARKS = st.sampled_from(sorted(decoding._DECODERS))
JSON_LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.integers(0, 3), st.floats(), TEXT),
    st.sampled_from(["mode", "pair", "plan", "packed", "FAST", "float32", "<M8[ns]", ">f4", "nan", "0x1f", "AAAA"]),
    st.sampled_from(["list", "cuda:0", "cpu", "object", "float128", "first", "data8"]),
)
GARBAGE = st.recursive(
    JSON_LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.one_of(TEXT, MARKS), inner, max_size=3),
        st.builds(lambda mark, value: {mark: value}, MARKS, inner),
        st.builds(lambda mark, name, value: {mark: [name, value]}, MARKS, JSON_LEAVES, inner),
        st.builds(lambda value: {"$subclass": ["packed", {"data8": value}, {"dtype": value}, [1], [1]]}, inner),
        st.builds(lambda items: {"$record": ["pair", {"first": items}]}, inner),
    ),
    max_leaves=12,
)


class NoSuchBlobError(Exception):
    """The callback's own error, which passes through."""


def blob(index: int) -> Any:
    values = [torch.ones(2), np.ones(3), np.array(1.5)]
    if index >= len(values):
        raise NoSuchBlobError
    return values[index]


@settings(FIXED, max_examples=800)
@given(tree=GARBAGE)
def test_random_json_is_decoded_or_refused_with_an_error_of_ours(tree: Any) -> None:
    try:
        codec.decode(json.loads(json.dumps(tree)), blob)
    except (codec.Undecodable, codec.NotRegistered, codec.ClassChanged, NoSuchBlobError):
        return


@settings(FIXED, max_examples=300)
@given(tree=st.recursive(LEAVES, nodes, max_leaves=8), data=st.data())
def test_a_sound_tree_with_one_place_changed_is_decoded_or_refused_with_an_error_of_ours(tree, data) -> None:
    encoded = codec.encode(tree)
    places = list(_places([encoded.tree]))
    container, key = data.draw(st.sampled_from(places))
    container[key] = data.draw(JSON_LEAVES | GARBAGE)
    try:
        codec.decode(encoded.tree, lambda index: blob(index % 3))
    except (codec.Undecodable, codec.NotRegistered, codec.ClassChanged):
        return


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in list(node.items() if isinstance(node, dict) else enumerate(node)):
        yield node, key
        if isinstance(item, (dict, list)):
            yield from _places(item)


def test_the_factories_of_defaultdict_are_hashable_types_only():
    assert all(isinstance(name, str) and isinstance(factory, Hashable) for name, factory in plain.FACTORIES.items())
