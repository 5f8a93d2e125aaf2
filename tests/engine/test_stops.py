"""What a stop saves, with programs that change parameters by other ways than an optimizer at the gate."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from app.checkpoint.storage.directory import DirectoryStore
from app.loop.gate import Gate
from app.loop.program import Program
from tests.engine.loops import Averaging, Loop, same, steps_on


class AveragedFirst(Averaging):
    """A moving average changes by hand at the top of each step, perhaps while the boundary before is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.during: dict[str, threading.Event] = {}

    def body(self, step: int) -> None:
        if step == 5 and self.during:
            self.during["stop"].set()
            assert self.during["writing"].wait(30)
        self.average_now()
        if step == 5 and self.during:
            self.during["changed"].set()
        super().body(step)


def test_parameters_changed_by_hand_while_the_last_boundary_is_saved_call_that_save_off(tmp_path, monkeypatch, capfd):
    whole = AveragedFirst()
    whole.run(tmp_path / "truth")
    stopped = AveragedFirst()
    stopped.during = {name: threading.Event() for name in ("stop", "writing", "changed")}
    create = DirectoryStore.create

    def slow(self: DirectoryStore, name: str, chunks: Any) -> int:
        if name.startswith("shards"):
            stopped.during["writing"].set()
            assert stopped.during["changed"].wait(30)
        return create(self, name, chunks)

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "create", slow)
        stopped.run(tmp_path / "line", stop_on=stopped.during["stop"])
    assert "that save is given up" in capfd.readouterr().out
    assert steps_on(tmp_path / "line") == [6]
    resumed = AveragedFirst()
    resumed.run(tmp_path / "line")
    assert same(resumed.model.state_dict(), whole.model.state_dict())
    assert same(resumed.average.state_dict(), whole.average.state_dict())


def test_a_save_that_fails_at_a_stop_is_tried_again_in_the_time_that_is_left(tmp_path, monkeypatch):
    create, failures = DirectoryStore.create, [3]

    def flaky(self: DirectoryStore, name: str, chunks: Any) -> int:
        if name.startswith("shards") and failures[0]:
            failures[0] -= 1
            raise OSError(5, "Input/output error")
        return create(self, name, chunks)

    monkeypatch.setattr(DirectoryStore, "create", flaky)
    Loop().run(tmp_path, stop_at=5)
    assert (failures, steps_on(tmp_path)) == ([0], [6])


class ByHand(Loop):
    """No hook fires: the optimizer's `step` was replaced by something that writes through `.data`."""

    def __init__(self) -> None:
        super().__init__()
        self.optimizer.step = self.update

    def update(self) -> None:
        for parameter in self.model.parameters():
            parameter.data -= 0.1 * parameter.grad


def test_an_optimizer_that_never_fires_the_gate_is_saved_at_boundaries_only(tmp_path):
    truth = ByHand().run(tmp_path / "truth")
    ByHand().run(tmp_path / "line", stop_at=5)
    assert steps_on(tmp_path / "line") == [6]
    assert same(ByHand().run(tmp_path / "line"), truth)


def test_clean_is_believed_only_of_optimizers_that_were_seen_at_the_gate():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = Program(model=model, optimizer=optimizer)
    boundary = program.capture(5)
    assert not program.untouched_since(boundary)
    program.update_begins(optimizer)
    assert program.untouched_since(boundary)
    with torch.no_grad():
        model.weight += 1
    assert not program.untouched_since(boundary)


def _half_the_moments(loop: Loop) -> None:
    for state in loop.optimizer.state.values():
        state["momentum_buffer"].mul_(0.5)


def _other_moments(loop: Loop) -> None:
    for state in loop.optimizer.state.values():
        state["momentum_buffer"] = state["momentum_buffer"] * 0.5


def _loaded(loop: Loop) -> None:
    state = copy.deepcopy(loop.optimizer.state_dict())
    for each in state["state"].values():
        each["momentum_buffer"] *= 0.5
    loop.optimizer.load_state_dict(state)


def _other_memory(loop: Loop) -> None:
    for parameter in loop.model.parameters():
        parameter.data = parameter.data * 0.9


def _swapped(loop: Loop) -> None:
    one, other = loop.model[0], loop.model[4]
    one.weight.data, other.weight.data = other.weight.data, one.weight.data


def _other_dtype_and_back(loop: Loop) -> None:
    loop.model.to(torch.bfloat16).to(torch.float32)


class ChangedAtTheTop(Loop):
    """`change` happens before forward in every step, with an optimizer that comes to the gate."""

    def __init__(self, change: Callable[[Loop], None]) -> None:
        super().__init__()
        layers = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 4), nn.Linear(8, 4)
        self.model = nn.Sequential(*layers)
        self.model.forward = self._forward
        self.model[4].weight = nn.Parameter(torch.randn(8, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.change = change
        self.changed_at: int | None = None
        self.changed, self.go_on = threading.Event(), threading.Event()

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        first, norm, drop, _, other = self.model
        return drop(norm(first(x))) @ other.weight

    def body(self, step: int) -> None:
        self.change(self)
        if step == self.changed_at:
            self.changed.set()
            assert self.go_on.wait(30)
        super().body(step)


@pytest.mark.parametrize("snapshot", ["eager", "deferred", "streaming"])
@pytest.mark.parametrize(
    "change", [_half_the_moments, _other_moments, _loaded, _other_memory, _swapped, _other_dtype_and_back]
)
def test_what_is_changed_by_hand_before_the_optimizers_step_is_not_taken_for_the_last_boundary(
    tmp_path, monkeypatch, change, snapshot
):
    truth = ChangedAtTheTop(change).run(tmp_path / "truth", every=4)
    loop = ChangedAtTheTop(change)
    loop.changed_at = 6
    closing = Gate.close

    def close(gate: Gate[Any]) -> None:
        closing(gate)
        loop.go_on.set()

    monkeypatch.setattr(Gate, "close", close)
    loop.run(tmp_path / "line", every=4, stop_on=loop.changed, snapshot=snapshot)
    assert steps_on(tmp_path / "line")[-1] == 7
    assert same(ChangedAtTheTop(change).run(tmp_path / "line", every=4), truth)


def test_a_group_that_is_added_before_the_optimizers_step_waits_for_the_next_boundary():
    model, more = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = Program(model={"one": model, "more": more}, optimizer=optimizer)
    program.update_begins(optimizer)
    boundary = program.capture(5)
    assert program.untouched_since(boundary)
    optimizer.add_param_group({"params": more.parameters()})
    assert not program.untouched_since(boundary)
