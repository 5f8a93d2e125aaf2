"""A restore finds out that an optimizer's parameters come in another order, and that parameters are tied otherwise."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from app import session
from app.contract import Refusal
from app.loop.program import Program
from app.shutdown import Shutdown
from tests.engine.lines import attempt
from tests.engine.loops import begin
from tests.engine.test_restoring import restored, saved

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from app.checkpoint.storage.directory import DirectoryStore

    Grouping = Callable[[nn.Module], list[Any]]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))


def program(grouping: Grouping) -> Program:
    """Trained for a step: every parameter has state, all of one shape."""
    model = net()
    optimizer = torch.optim.Adam(grouping(model))
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return Program(model=model, optimizer=optimizer)


def all_of(model: nn.Module) -> list[Any]:
    return list(model.parameters())


def backwards(model: nn.Module) -> list[Any]:
    return all_of(model)[::-1]


def split(first: list[int], second: list[int]) -> Grouping:
    return lambda model: [{"params": [all_of(model)[n] for n in group]} for group in (first, second)]


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (all_of, backwards),
        (split([0], [1, 2]), split([1], [0, 2])),
        (split([0], [1, 2]), split([0], [2, 1])),
        (split([0], [1, 2]), split([1], [2, 0])),
    ],
)
def test_parameters_in_another_order_or_grouping_are_refused_before_anything_is_changed(
    store: DirectoryStore, there: Grouping, here: Grouping
) -> None:
    line = attempt(store, 1)
    saved(line, program(there))
    model = net()
    resumed = Program(model=model, optimizer=torch.optim.Adam(here(model)))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(Refusal, match=r"optimizer.*order.*model\.\d\.weight"):
        restored(line, resumed)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_the_same_order_is_taken_and_so_is_an_older_checkpoint_that_does_not_tell(store: DirectoryStore) -> None:
    line = attempt(store, 1)
    saved(line, program(split([0, 2], [1])))
    restored(line, program(split([0, 2], [1])))
    older = program(all_of)
    told = older.state
    older.state = lambda boundary: {key: value for key, value in told(boundary).items() if key != "orders"}  # type: ignore[method-assign]
    saved(line, older, 2)
    restored(line, program(backwards))


def test_a_group_that_is_added_on_the_way_must_be_there_when_it_is_resumed(tmp_path: Path) -> None:
    def attempt_of(total: int, *added: int) -> None:
        """The layers `added` are in the optimizer from the start; layer 2 joins at step 1."""
        model = net()
        optimizer = torch.optim.Adam(model[0].parameters())
        for layer in added:
            optimizer.add_param_group({"params": model[layer].parameters()})
        options: dict[str, Any] = {"start": begin(tmp_path), "shutdown": Shutdown(), "every_steps": 1}
        with session(model=model, optimizer=optimizer, total_steps=total, **options) as run:
            for step in run.steps():
                if step == 1:
                    optimizer.add_param_group({"params": model[2].parameters()})
                optimizer.zero_grad()
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()

    attempt_of(4)
    for others in ((), (1,)):
        with pytest.raises(Refusal, match=r"order|fit"):
            attempt_of(6, *others)
    attempt_of(6, 2)


def tied(model: nn.Module) -> nn.Module:
    model[2].weight = model[0].weight
    return model


def shared_memory(model: nn.Module) -> nn.Module:
    """Two parameters over the same memory."""
    model[2].weight = nn.Parameter(model[0].weight.data)
    return model


@pytest.mark.parametrize("tie", [tied, shared_memory])
def test_parameters_that_were_tied_on_the_way_must_be_tied_when_it_is_resumed(
    store: DirectoryStore, tie: Callable[[nn.Module], nn.Module]
) -> None:
    line = attempt(store, 1)
    saved(line, Program(model=tie(net())))
    model = net()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(Refusal, match=r"model\.0\.weight and model\.2\.weight are one parameter in the checkpoint"):
        restored(line, Program(model=model))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    again = tie(net())
    restored(line, Program(model=again))
    assert again[2].weight.data_ptr() == again[0].weight.data_ptr()


@pytest.mark.parametrize("tie", [tied, shared_memory])
def test_parameters_that_were_untied_on_the_way_must_be_untied_when_it_is_resumed(
    store: DirectoryStore, tie: Callable[[nn.Module], nn.Module]
) -> None:
    line = attempt(store, 1)
    saved(line, Program(model=net()))
    with pytest.raises(Refusal, match=r"model\.0\.weight and model\.2\.weight are two in the checkpoint and one here"):
        restored(line, Program(model=tie(net())))


def test_a_parameter_that_two_models_share_stays_shared(store: DirectoryStore) -> None:
    def two(*, share: bool) -> Program:
        a, b = net(), net()
        if share:
            b[1].weight = a[1].weight
        return Program(model={"a": a, "b": b})

    line = attempt(store, 1)
    saved(line, two(share=True))
    restored(line, two(share=True))
    with pytest.raises(Refusal, match=r"model\.a\.1\.weight and model\.b\.1\.weight"):
        restored(line, two(share=False))


def test_empty_parameters_and_tied_buffers_are_no_riddle(store: DirectoryStore) -> None:
    def odd(*, one: bool) -> nn.Module:
        model = net()
        model.empty = nn.Parameter(torch.empty(0))
        model.none = model.empty if one else nn.Parameter(torch.empty(0))
        model.register_buffer("a", torch.ones(2))
        model.register_buffer("b", model.a if one else torch.ones(2))
        return model

    line = attempt(store, 1)
    for there in (True, False):
        saved(line, Program(model=odd(one=there)), 1 + there)
        for here in (True, False):
            restored(line, Program(model=odd(one=here)))
