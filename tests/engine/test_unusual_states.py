"""What the looks at a state must let pass: unusual programs whose checkpoints are sound, and were always resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from app import session
from app.checkpoint.line import Line
from app.checkpoint.storage.directory import DirectoryStore
from app.contract import Refusal
from app.loop.program import Program
from app.shutdown import Shutdown
from tests.engine.lines import attempt
from tests.engine.loops import begin
from tests.engine.test_restoring import restored, saved

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Made = tuple[nn.Module, torch.optim.Optimizer, Program]


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return attempt(DirectoryStore(tmp_path), 1)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [optimizer.state[parameter]["exp_avg"].clone() for parameter in model.parameters()]


def assert_moments_come_back(line: Line, program: Callable[[], Made]) -> None:
    """`program` makes one anew; what the first one's optimizer learned in a step, the second's has after a restore."""
    model, optimizer, first = program()
    stepped(model, optimizer)
    saved(line, first)
    again, other, second = program()
    restored(line, second)
    assert all(map(torch.equal, moments(again, other), moments(model, optimizer)))


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate parameters")
def test_tied_weights_that_an_optimizer_was_given_twice_are_resumed(line: Line) -> None:
    """torch warns of it and goes on: a list made of two layers' parameters, of which one is the other's."""

    def program() -> Made:
        model = net()
        model[2].weight = model[0].weight
        optimizer = torch.optim.Adam([*model[0].parameters(), *model[2].parameters()])
        return model, optimizer, Program(model=model, optimizer=optimizer)

    assert_moments_come_back(line, program)
    once = net()
    with pytest.raises(Refusal, match="optimizer"):
        restored(line, Program(model=once, optimizer=torch.optim.Adam(once.parameters())))


def test_an_optimizer_whose_hooks_put_names_for_numbers_is_resumed(line: Line) -> None:
    def program() -> Made:
        model = net()
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.register_state_dict_post_hook(lambda _optimizer, state: renamed(state, str))
        optimizer.register_load_state_dict_pre_hook(lambda _optimizer, state: renamed(state, int))
        return model, optimizer, Program(model=model, optimizer=optimizer)

    def renamed(state: dict[str, Any], turned: Callable[[Any], Any]) -> dict[str, Any]:
        groups = [{**group, "params": list(map(turned, group["params"]))} for group in state["param_groups"]]
        return {"state": {turned(number): each for number, each in state["state"].items()}, "param_groups": groups}

    assert_moments_come_back(line, program)


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: lr_scheduler.StepLR(optimizer, 1),
        lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, patience=0),
    ],
)
def test_a_group_that_was_added_after_the_scheduler_was_made_is_no_other_kind_of_scheduler(
    line: Line, make: Callable[[Any], Any]
) -> None:
    def program() -> tuple[Any, Program]:
        model = net()
        optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
        scheduler = make(optimizer)
        optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.01})
        return scheduler, Program(model=model, optimizer=optimizer, scheduler=scheduler)

    scheduler, first = program()
    for _ in range(3):
        scheduler.optimizer.step()
        scheduler.step(*([1.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
    saved(line, first)
    other, second = program()
    restored(line, second)
    assert other.state_dict() == scheduler.state_dict()


@pytest.mark.parametrize(
    ("begun", "became"),
    [([], [1.5, 2.5]), ([0.5], [1.5, 2.5]), (0, [1, 2]), (None, {"a": 1}), ("warm-up", 7), (1, -1), (0.5, "off")],
)
def test_what_a_program_keeps_in_a_group_may_become_anything(line: Line, begun: object, became: object) -> None:
    def program() -> tuple[torch.optim.Optimizer, Program]:
        model = net()
        optimizer = torch.optim.SGD([{"params": model.parameters(), "own": begun}], lr=0.1)
        return optimizer, Program(model=model, optimizer=optimizer)

    optimizer, first = program()
    optimizer.param_groups[0]["own"] = became
    saved(line, first)
    other, second = program()
    restored(line, second)
    assert other.param_groups[0]["own"] == became


def test_a_module_may_call_its_version_as_it_likes(line: Line) -> None:
    class Named(nn.Linear):
        _version = "2024-05"  # pyright: ignore[reportAssignmentType]

    def program() -> Program:
        return Program(model=nn.Sequential(Named(2, 2)))

    saved(line, program())
    restored(line, program())


def test_layers_that_are_tied_may_be_named_in_another_order(line: Line) -> None:
    """Which of its names a tied parameter is counted under is no order of the optimizer's."""

    class Model(nn.Module):
        def __init__(self, *, head_first: bool) -> None:
            super().__init__()
            for name in ("head", "embed")[:: 1 if head_first else -1]:
                setattr(self, name, nn.Linear(4, 4, bias=False))
            self.head.weight = self.embed.weight
            self.body = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.embed(x)))

    def program(*, head_first: bool) -> Made:
        model = Model(head_first=head_first)
        optimizer = torch.optim.Adam(model.parameters())
        return model, optimizer, Program(model=model, optimizer=optimizer)

    model, optimizer, first = program(head_first=True)
    stepped(model, optimizer)
    saved(line, first)
    again, other, second = program(head_first=False)
    restored(line, second)
    assert all(map(torch.equal, moments(again, other), moments(model, optimizer)))


@pytest.mark.parametrize("extra", [np.arange(3.0), np.float32(2.5), {"seen": 3}, torch.ones(2)])
def test_what_a_module_keeps_as_extra_state_may_be_of_numpys_kinds(tmp_path: Path, extra: Any) -> None:
    class Keeping(nn.Linear):
        def get_extra_state(self) -> Any:
            return self.extra

        def set_extra_state(self, state: Any) -> None:
            self.extra = state

    def steps_of(total: int) -> Any:
        model = Keeping(2, 2)
        model.extra = extra * 0 if not isinstance(extra, dict) else {}
        with session(model=model, total_steps=total, start=begin(tmp_path), shutdown=Shutdown()) as run:
            for _ in run.steps():
                model.extra = extra
        return model.extra

    steps_of(1)
    found = steps_of(1)
    assert type(found) is type(extra)
    assert str(found) == str(extra)


def test_schedulers_within_one_may_lack_what_a_newer_torch_keeps_for_itself(line: Line) -> None:
    """As one that is given to the session may."""

    def program() -> Program:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        parts = [lr_scheduler.LinearLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.9)]
        return Program(
            model=model, optimizer=optimizer, scheduler=lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])
        )

    older = program()
    told = older.state

    def of_an_older_torch(boundary: Any) -> dict[str, Any]:
        state = told(boundary)
        for each in state["scheduler"]["_schedulers"]:
            assert each.pop("_is_initial") is False
        return state

    older.state = of_an_older_torch  # type: ignore[method-assign]
    saved(line, older)
    restored(line, program())
