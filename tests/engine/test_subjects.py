"""What a session is given: names that cannot be confused, and objects that can be saved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from app.contract import Refusal
from app.loop.program import Program


def net(*path: str) -> nn.Module:
    """A model whose one tensor is called like that."""
    inner: nn.Module = nn.ParameterDict({path[-1]: torch.ones(2)})
    for name in reversed(path[:-1]):
        inner = nn.ModuleDict({name: inner})
    return inner


@pytest.mark.parametrize("names", [{0: 1, "x": 1}, {None: 1}, {"": 1}, {("a",): 1}, {1.5: 1, "a": 1}, {b"a": 1}])
@pytest.mark.parametrize("role", ["model", "optimizer", "scheduler", "data", "extra", "scaler"])
def test_a_name_that_is_no_text_or_empty_is_refused(role: str, names: dict[Any, int]) -> None:
    wrong = next(name for name in names if not isinstance(name, str) or not name)
    with pytest.raises(Refusal) as refused:
        Program(**{role: dict.fromkeys(names, nn.Linear(1, 1))})
    assert repr(wrong) in str(refused.value)
    assert f"{role}=" in str(refused.value)


def test_models_whose_tensors_would_have_one_name_are_refused_naming_both() -> None:
    with pytest.raises(Refusal, match=r"'a' and 'a\.b'.*a\.b\.x"):
        Program(model={"a": net("b", "x"), "a.b": net("x")})
    buffered = nn.Module()
    buffered.register_buffer("x", torch.ones(1))
    with pytest.raises(Refusal, match=r"'a' and 'a\.b'.*a\.b\.x"):
        Program(model={"a": net("b", "x"), "a.b": buffered})


def test_each_of_several_models_is_asked_for_its_state_as_often_as_one_alone() -> None:
    def asked(*names: str) -> int:
        models, times = {name: nn.Linear(1, 1) for name in names}, list[nn.Module]()
        for model in models.values():
            model.register_state_dict_pre_hook(lambda module, *_: times.append(module))
        Program(model=models)
        return len(times)

    assert asked("a", "b") == 2 * asked("a")


def test_models_with_a_dot_in_their_names_are_fine_while_their_tensors_have_names_of_their_own() -> None:
    program = Program(model={"a": net("x"), "a.b": net("x")})
    assert sorted(program.weights()) == ["a.b.x", "a.x"]


@pytest.mark.parametrize("role", ["model", "optimizer", "scheduler", "data", "extra", "scaler"])
@pytest.mark.parametrize("given", [5, "text", [1], object()])
def test_an_object_that_cannot_be_saved_is_refused_by_its_role(role: str, given: object) -> None:
    with pytest.raises(Refusal, match=rf"{role}= is a {type(given).__name__}"):
        Program(**{role: given})  # type: ignore[arg-type]
    with pytest.raises(Refusal, match=rf"{role}\.live= is a {type(given).__name__}"):
        Program(**{role: {"live": given}})  # type: ignore[arg-type]


def test_the_parameters_themselves_are_no_optimizer_and_a_class_is_no_model() -> None:
    model = nn.Linear(1, 1)
    for role, given in {"optimizer": model.parameters(), "model": nn.Linear, "scheduler": torch.optim.SGD}.items():
        with pytest.raises(Refusal, match=f"{role}= is"):
            Program(**{role: given})  # type: ignore[arg-type]


def test_a_model_of_another_make_needs_more_than_a_state() -> None:
    half = SimpleNamespace(state_dict=dict, load_state_dict=lambda _state: None)
    with pytest.raises(Refusal, match="model= is a SimpleNamespace"):
        Program(model=half)  # type: ignore[arg-type]


def test_what_could_be_saved_and_never_be_put_back_is_refused_at_once() -> None:
    def with_buffer(value: torch.Tensor) -> nn.Module:
        model = nn.Linear(1, 1)
        model.register_buffer("odd", value)
        return model

    with torch.inference_mode():
        made_there = torch.ones(2)
    for model, told in (
        (nn.Sequential(nn.LazyLinear(2)), r"model: 0\.weight has no shape yet"),
        (with_buffer(made_there), "model: odd was made in inference mode"),
        (with_buffer(torch.ones(1).expand(3)), "model: odd repeats one value"),
    ):
        with pytest.raises(Refusal, match=told):
            Program(model=model)


def test_pending_gradients_of_a_module_that_was_replaced_on_the_way_are_saved() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = Program(model=model, optimizer=optimizer)
    program.capture(1)
    model[1] = nn.Linear(2, 2)
    optimizer.param_groups[0]["params"] = list(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    state = program.state(program.capture(2))
    assert sorted(state["gradients"]) == ["model.0.bias", "model.0.weight", "model.1.bias", "model.1.weight"]
    assert state["gradients"]["model.1.weight"] is model[1].weight.grad
