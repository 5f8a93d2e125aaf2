"""Classes that a program registered come back as instances of it; others are refused with what to do."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from app.checkpoint import codec
from app.checkpoint.state import registered
from app.contract import Refusal
from app.loop.program import Program
from app.provenance import weights_sha256
from tests.engine.lines import round_trip
from tests.engine.packed import Packed


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registered, "_BY_NAME", {})
    monkeypatch.setattr(registered, "_BY_CLASS", {})
    return


def through_json(state: Any) -> Any:
    encoded = codec.encode(state)
    values = [blob.value.detach().clone() for blob in encoded.blobs]
    return codec.decode(json.loads(json.dumps(encoded.tree)), values.__getitem__)


class Phase(enum.Enum):
    WARM_UP = 1
    DECAY = "two"


class Level(enum.IntEnum):
    LOW = 3


class Parts(enum.Flag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: int
    y: Any = 0


@dataclasses.dataclass
class Plan:
    phase: Phase
    weights: torch.Tensor
    notes: list[Any] = dataclasses.field(default_factory=list)
    derived: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.derived = 7


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    name: str


@pytest.mark.parametrize("value", [Phase.DECAY, Level.LOW, Parts.A | Parts.B, Parts(0), Point(1, Point(2)), Key("k")])
def test_enums_named_tuples_and_dataclasses_come_back_equal_and_of_their_class(value):
    codec.register("value", type(value))
    restored = through_json({"v": value})["v"]
    assert type(restored) is type(value)
    assert restored == value


def test_a_dataclass_comes_back_field_by_field_without_being_made_anew():
    codec.register("phase", Phase)
    codec.register("plan")(Plan)
    plan = Plan(Phase.WARM_UP, torch.ones(2), [(1, 2)])
    plan.derived = 8
    restored = through_json({"p": plan})["p"]
    assert (restored.phase, restored.notes, restored.derived) == (Phase.WARM_UP, [(1, 2)], 8)
    assert torch.equal(restored.weights, plan.weights)


def test_registered_values_may_be_keys():
    codec.register("key", Key)
    assert through_json({Key("a"): 1, (Key("b"), 2): 3}) == {Key("a"): 1, (Key("b"), 2): 3}


def test_a_tensor_of_a_registered_subclass_comes_back_whole_and_its_parts_stay_tied():
    codec.register("packed", Packed)
    scale = torch.tensor(0.5)
    state = {
        "a": Packed(torch.tensor([[1, 2]], dtype=torch.int8), scale, torch.bfloat16),
        "b": Packed(torch.tensor([[3, 4]], dtype=torch.int8), scale, torch.bfloat16),
    }
    restored = through_json(state)
    assert type(restored["a"]) is Packed
    assert restored["a"].dtype == torch.bfloat16
    assert restored["b"].plain().tolist() == [[1.5, 2.0]]
    assert restored["a"].scale is restored["b"].scale


class Adapted(nn.Module):
    """Frozen quantized weights with a trained layer beside them."""

    def __init__(self, value: int) -> None:
        super().__init__()
        packed = Packed(torch.full((2, 2), value, dtype=torch.int8), torch.tensor(0.5), torch.float32)
        self.base = nn.Parameter(packed, requires_grad=False)
        self.adapter = nn.Linear(2, 2)


def test_a_model_with_parameters_of_a_registered_subclass_is_saved_restored_and_hashed(store):
    codec.register("packed", Packed)
    saved, other = Adapted(3), Adapted(1)
    programs = [Program(model=each, optimizer=torch.optim.SGD(each.adapter.parameters())) for each in (saved, other)]
    before = weights_sha256(other.state_dict())
    programs[1].restore(round_trip(store, programs[0].state(programs[0].capture(1))))
    assert other.base.data8.tolist() == [[3, 3], [3, 3]]
    assert weights_sha256(other.state_dict()) == weights_sha256(saved.state_dict()) != before


def test_the_hash_of_the_weights_tells_a_view_by_its_values():
    value = torch.tensor([1 + 2j])
    assert weights_sha256({"z": value.conj()}) == weights_sha256({"z": torch.tensor([1 - 2j])})
    line = b"w bfloat16 [2]\n" + bytes([0x80, 0x3F, 0, 0x40])
    assert weights_sha256({"w": torch.tensor([1, 2], dtype=torch.bfloat16)}) == hashlib.sha256(line).hexdigest()


def test_a_subclass_that_was_not_registered_is_refused_with_what_to_call():
    packed = Packed(torch.ones(2, dtype=torch.int8), torch.tensor(1.0), torch.float32)
    with pytest.raises(codec.Unsavable, match=r"^m/w: .*Packed.*codec\.register\("):
        codec.encode({"m": {"w": packed}})


@pytest.mark.parametrize("value", [Phase.DECAY, Level.LOW, Point(1), Key("k")], ids=repr)
def test_what_was_not_registered_is_refused_with_what_to_call(value):
    with pytest.raises(codec.Unsavable, match=r"^v: .*codec\.register\("):
        codec.encode({"v": value})


def test_an_attribute_that_is_no_field_would_be_lost_and_is_refused():
    codec.register("phase", Phase)
    codec.register("plan", Plan)
    plan = Plan(Phase.DECAY, torch.ones(1))
    plan.extra = 1
    with pytest.raises(codec.Unsavable, match=r"^p: .*extra"):
        codec.encode({"p": plan})


class Roomy(Point):
    """A named tuple with room for attributes."""


def test_an_attribute_of_a_named_tuple_would_be_lost_too():
    codec.register("roomy", Roomy)
    roomy = Roomy(1)
    assert type(through_json(roomy)) is Roomy
    roomy.extra = 1
    with pytest.raises(codec.Unsavable, match="extra"):
        codec.encode(roomy)


def test_a_registered_object_that_holds_itself_is_refused():
    codec.register("phase", Phase)
    codec.register("plan", Plan)
    plan = Plan(Phase.DECAY, torch.ones(1))
    plan.notes.append(plan)
    with pytest.raises(codec.Unsavable, match=r"^p/notes/0: it holds itself"):
        codec.encode({"p": plan})


def saved(name: str, value: Any) -> Any:
    codec.register(name, type(value))
    tree = codec.encode(value).tree
    registered._BY_NAME.clear()
    registered._BY_CLASS.clear()
    return tree


def test_a_name_that_this_program_did_not_register_is_a_refusal_that_says_what_to_register():
    tree = saved("point", Point(1))
    codec.register("other", Phase)
    with pytest.raises(codec.NotRegistered, match=r'codec\.register\("point", THE_CLASS\)') as refusal:
        codec.decode(tree, [].__getitem__)
    assert isinstance(refusal.value, Refusal), "it is no damage: the next older checkpoint must not be used"
    assert "registered other" in str(refusal.value)


class Smaller(NamedTuple):
    x: int


class Larger(NamedTuple):
    x: int
    y: Any
    z: int


class LargerWithDefault(NamedTuple):
    x: int
    y: Any = 0
    z: int = 9


class OtherPhase(enum.Enum):
    WARM_UP = 1


@pytest.mark.parametrize(
    ("value", "now", "told"),
    [
        (Point(1, 2), Smaller, "no field y"),
        (Point(1, 2), Larger, "new field z without a default"),
        (Point(1, 2), Phase, "another kind"),
        (Phase.DECAY, OtherPhase, "no member 'DECAY'"),
    ],
)
def test_a_class_that_changed_so_that_it_cannot_hold_what_was_saved_is_a_refusal(value, now, told):
    tree = saved("it", value)
    codec.register("it", now)
    with pytest.raises(codec.ClassChanged, match=told) as refusal:
        codec.decode(tree, [].__getitem__)
    assert isinstance(refusal.value, Refusal)


def test_a_field_that_is_new_gets_its_default():
    tree = saved("it", Point(1, 2))
    codec.register("it", LargerWithDefault)
    assert codec.decode(tree, [].__getitem__) == LargerWithDefault(1, 2, 9)


def test_a_subclass_whose_code_does_not_take_what_was_saved_is_a_refusal():
    tree = saved("packed", Packed(torch.ones(2, dtype=torch.int8), torch.tensor(1.0), torch.float32))
    tree["$subclass"][2]["packing"] = {"$tuple": [2, "column"]}
    codec.register("packed", Packed)
    with pytest.raises(codec.ClassChanged, match="put together"):
        codec.decode(tree, [torch.ones(2), torch.ones(1)].__getitem__)


class Sub(dict): ...


@dataclasses.dataclass
class Listing(list):
    x: int = 0


@pytest.mark.parametrize("cls", [int, str, Sub, object, Listing, torch.Tensor, torch.nn.Parameter, torch.nn.Linear])
def test_a_class_of_no_such_kind_cannot_be_registered(cls):
    with pytest.raises(TypeError, match="cannot be registered"):
        codec.register("it", cls)


def test_a_name_belongs_to_one_class_and_a_class_has_one_name():
    assert codec.register("point", Point) is codec.register("point", Point)
    with pytest.raises(ValueError, match="point"):
        codec.register("point", Phase)
    with pytest.raises(ValueError, match="point"):
        codec.register("place", Point)
