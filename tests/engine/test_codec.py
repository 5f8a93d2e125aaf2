"""Any tree of tensors and plain values comes back as it was, and everything else is refused with its path."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from app.checkpoint import codec, writer
from app.checkpoint.codec import Unsavable
from app.checkpoint.shards import blocks
from app.checkpoint.state import together
from app.loop.program import Program
from tests.engine.lines import round_trip

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 5)], ids=str)
def test_every_dtype_and_shape_keeps_its_bits(store, dtype, shape):
    original = (torch.rand(shape) * 9).to(dtype)
    restored = round_trip(store, {"t": original})["t"]
    assert (restored.dtype, restored.shape) == (dtype, torch.Size(shape))
    assert torch.equal(restored.reshape(-1).view(torch.uint8), original.reshape(-1).view(torch.uint8))


def test_plain_values_come_back_equal_and_of_the_same_type(store):
    state = {
        "numbers": [0, -1, 2**127, True, False, None, 0.1, -0.0, 1e308, float("inf"), float("-inf")],
        "text": ["", "ünï", "\x00", "$tensor"],
        "bytes": b"\x00\xff",
        "tuple": (1, (2, [3, ()])),
        "int keys": {0: "a", 1: {2: "b"}, "0": "c"},
        "tuple keys": {(0, "x"): 1.5, None: 2, True: 3},
        "dollar": {"$tensor": 0, "$x": {"$tuple": []}},
        "ordered": OrderedDict([("b", 1), ("a", 2)]),
        "counter": Counter("abca"),
        "random": random.Random(3).getstate(),
        "generator": np.random.default_rng(3).bit_generator.state,
    }
    restored = round_trip(store, state)
    assert restored == state
    assert [type(value) for value in restored["numbers"]] == [type(value) for value in state["numbers"]]
    assert {key: type(value) for key, value in restored.items()} == {key: type(value) for key, value in state.items()}


def test_not_a_number_stays_so(store):
    assert np.isnan(round_trip(store, {"x": float("nan")})["x"])


def test_numpy_arrays_and_scalars_stay_what_they_were(store):
    restored = round_trip(store, {"a": np.arange(6, dtype=np.uint32).reshape(2, 3)[:, ::2], "s": np.float16(0.1)})
    assert restored["a"].dtype == np.uint32
    assert restored["a"].tolist() == [[0, 2], [3, 5]]
    assert type(restored["s"]) is np.float16


def test_non_contiguous_and_conjugated_tensors_keep_their_values(store):
    base = torch.arange(12.0).reshape(3, 4)
    state = {"t": base.T, "s": base[::2, 1:], "e": base[:1].expand(5, 4), "c": torch.tensor([1 + 2j]).conj()}
    restored = round_trip(store, state)
    assert all(torch.equal(restored[key], state[key]) for key in state)


def test_tied_tensors_are_stored_once_and_stay_tied(store):
    layer = nn.Linear(4, 4)
    state = {"a": layer.weight, "b": layer.weight, "view": layer.weight[:2]}
    assert len(codec.encode(state).blobs) == 2
    restored = round_trip(store, state)
    assert restored["a"] is restored["b"]
    assert torch.equal(restored["view"], layer.weight[:2])


def test_paths_that_collide_in_the_header_do_not_collide(store):
    state = {"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}, "__metadata__": torch.full((1,), 2.0)}
    restored = round_trip(store, state)
    assert [restored["a/b"].item(), restored["a"]["b"].item(), restored["__metadata__"].item()] == [0, 1, 2]


def many(**unusual: object) -> dict[str, object]:
    """A dict that is long enough to be looked at as a whole."""
    return {f"t{n}": torch.full((n % 5 + 1,), n) for n in range(40)} | unusual


@pytest.mark.parametrize(
    "state",
    [
        many(),
        {"model": many(), "average": many()},
        many(tied=(tied := torch.ones(3)), again=tied),
        many(whole=(whole := torch.arange(6.0)), view=whole[:2]),
        {"one": (shared := torch.ones(3)), "others": many(tied=shared)},
        many(empty=torch.zeros(0, 4), scalar=torch.tensor(3.0)),
        many(parameter=nn.Parameter(torch.ones(2)), bias=torch.zeros(2, dtype=torch.bfloat16)),
        many(array=np.arange(3), text="x", nested=many()),
        {"a/t1": torch.ones(1), "a": many()},
        many(**{"\u00fc": torch.ones(1), "__metadata__": torch.zeros(1), "$x": torch.ones(2)}),
        many(**{"\ud800": torch.ones(1)}),
    ],
    ids=range(11),
)
def test_tensors_looked_at_together_are_encoded_as_one_by_one(state, monkeypatch):
    found = codec.encode(state)
    monkeypatch.setattr(together, "WORTH_TOGETHER", 10**9)
    wanted = codec.encode(state)
    assert found.tree == wanted.tree
    for ours, theirs in zip(found.blobs, wanted.blobs, strict=True):
        assert (ours.path, ours.kind, ours.dtype, ours.shape) == (theirs.path, theirs.kind, theirs.dtype, theirs.shape)
        assert ours.value is theirs.value


@pytest.mark.parametrize("odd", [torch.ones(2).to_sparse(), torch.ones(2, device="meta")], ids=["sparse", "meta"])
def test_one_tensor_among_many_that_has_no_form_is_refused_by_its_path(odd):
    with pytest.raises(Unsavable, match="model/odd"):
        codec.encode({"model": many(odd=odd)})


def test_a_dict_of_many_tensors_counts_as_a_container_like_others():
    state = many()
    for _ in range(100):
        state = {"deeper": state}
    with pytest.raises(Unsavable, match="more than 100 deep"):
        codec.encode(state)


@pytest.mark.parametrize(
    "sizes", [[3355] * 700, [1] * 700, [1, 16, 16, 17, 3, 3, 3] * 100, [7] * 40 + [16] * 5 + [9] * 40]
)
def test_many_small_tensors_come_back_each_at_a_multiple_of_64_bytes(store, sizes):
    state = {f"t{n}": torch.randn(size) for n, size in enumerate(sizes)}
    restored = round_trip(store, state)
    assert all(torch.equal(restored[name], value) for name, value in state.items())
    assert not any(value.data_ptr() % 64 for value in restored.values())
    assert {value.untyped_storage().nbytes() - value.nbytes for value in restored.values()} == {0}


def test_a_shard_is_a_file_that_any_safetensors_reader_opens(store):
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)).to(torch.bfloat16)
    round_trip(store, {"model": model.state_dict()})
    (shard,) = store.root.glob("shards/*/*.safetensors")
    found = safetensors.torch.load_file(shard)
    assert all(torch.equal(found[f"model/{name}"], value) for name, value in model.state_dict().items())


def test_a_large_state_is_split_into_shards(store, monkeypatch):
    monkeypatch.setattr(writer, "SHARD_BYTES", 100)
    state = {str(index): torch.full((index + 5,), float(index)) for index in range(20)}
    restored = round_trip(store, state)
    assert len(list(store.root.glob("shards/*/*.safetensors"))) > 5
    assert all(torch.equal(restored[key], state[key]) for key in state)


class Custom:
    pass


@pytest.mark.parametrize(
    ("state", "path"),
    [
        ({"a": {"b": [1, Custom()]}}, "a/b/1"),
        ({"a": {1, 2}}, "a"),
        ({"f": len}, "f"),
        ({"n": np.array(["text"])}, "n"),
        ({"m": torch.empty(2, device="meta")}, "m"),
        ({"s": torch.eye(2).to_sparse()}, "s"),
        ({"e": OrderedDict(k=Custom())}, "e/k"),
    ],
)
def test_everything_else_is_refused_with_its_path(state, path):
    with pytest.raises(Unsavable, match=f"^{path}: "):
        codec.encode(state)


def test_a_copy_does_not_follow_the_original():
    tensor, array = torch.zeros(3), np.zeros(3)
    copied = codec.encode({"t": tensor, "a": array}).copied()
    tensor += 1
    array += 1
    assert [bytes(piece) for piece in blocks.stream(b"", copied.blobs)] == [bytes(3 * 4 + 3 * 8)]


def test_an_fp32_moment_of_a_bf16_parameter_gets_its_exact_dtype_back(store):
    def program() -> tuple[nn.Module, torch.optim.Optimizer, Program]:
        model = nn.Linear(4, 4).to(torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters())
        return model, optimizer, Program(model=model, optimizer=optimizer)

    model, optimizer, before = program()
    model(torch.ones(1, 4, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    for moments in optimizer.state.values():
        moments["exp_avg"] = torch.full_like(moments["exp_avg"], 1 / 3, dtype=torch.float32)
    saved = round_trip(store, before.state(before.capture(1)))
    _, other, after = program()
    after.restore(saved)
    for moments in other.state.values():
        assert moments["exp_avg"].dtype == torch.float32
        assert bool((moments["exp_avg"] == torch.tensor(1 / 3)).all())


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.LBFGS])
def test_optimizers_with_odd_state_come_back_exactly(store, make):
    def program() -> tuple[nn.Module, torch.optim.Optimizer, Program]:
        torch.manual_seed(1)
        model = nn.Linear(3, 3)
        optimizer = make(model.parameters(), lr=0.1)
        return model, optimizer, Program(model=model, optimizer=optimizer)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(torch.ones(2, 3)).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    model, optimizer, before = program()
    step(model, optimizer)
    saved = round_trip(store, before.state(before.capture(1)))
    other, resumed, after = program()
    after.restore(saved)
    for pair in ((model, optimizer), (other, resumed)):
        step(*pair)
    assert torch.equal(model.weight, other.weight)
