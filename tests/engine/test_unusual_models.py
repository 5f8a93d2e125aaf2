"""Models whose state is not simply their parameters and buffers by name: each resumes to the same weights."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (  # pyright: ignore[reportUnknownVariableType]
    checkpoint_wrapper,
)

from app.contract import Refusal
from app.loop.gate import Gate
from tests.engine.loops import Loop, same, steps_on


class Counting(nn.Module):
    """Its extra state changes in forward, and what comes out depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x / self.seen

    def get_extra_state(self) -> dict[str, int]:
        return {"seen": self.seen}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]


class Renamed(nn.Module):
    """Its inner layers are saved under shorter names, by hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.BatchNorm1d(8)
        self.register_state_dict_post_hook(self._shorten)
        self.register_load_state_dict_pre_hook(self._lengthen)

    @staticmethod
    def _shorten(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
        for name in [name for name in state if name.startswith(f"{prefix}inner.")]:
            state[name.replace(f"{prefix}inner.", prefix)] = state.pop(name)

    @staticmethod
    def _lengthen(_module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
        for name in [name for name in state if name.startswith(prefix)]:
            state[prefix + "inner." + name.removeprefix(prefix)] = state.pop(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Replacing(nn.Module):
    """Its buffer is another tensor after each forward pass."""

    average: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average = self.average * 0.9 + x.detach().mean(0)
        return x - self.average


class Copying(Replacing):
    """What is in its state is a copy, made while it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.register_state_dict_post_hook(self._copied)

    @staticmethod
    def _copied(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
        state[f"{prefix}average"] = state[f"{prefix}average"].clone()


class Doubling(Replacing):
    """Its state has twice its buffer, under the buffer's name."""

    def __init__(self) -> None:
        super().__init__()
        self.register_state_dict_post_hook(self._doubled)
        self.register_load_state_dict_pre_hook(self._halved)

    @staticmethod
    def _doubled(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
        state[f"{prefix}average"] = state[f"{prefix}average"] * 2

    @staticmethod
    def _halved(_module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
        state[f"{prefix}average"] = state[f"{prefix}average"] / 2


class Widening(Replacing):
    """Its buffer is empty until it has seen something, as torch's observers are; it takes the shape that it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.average = torch.zeros(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average = x.detach().mean(0) + (0.9 * self.average if len(self.average) else 0)
        return x - self.average

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        self.average = torch.zeros_like(state_dict[f"{prefix}average"])
        super()._load_from_state_dict(state_dict, prefix, *rest)  # pyright: ignore[reportUnknownMemberType]


class Deaf(Widening):
    """Takes no other shape, and says nothing of it."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        pass


def wrapped() -> nn.Module:
    return checkpoint_wrapper(nn.Sequential(nn.BatchNorm1d(8), nn.ReLU()))


class WithLayer(Loop):
    """Stopped when `layer` has been called, and before the optimizer's step."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 8), layer(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.halt_at: int | None = None
        self.forward_done, self.go_on = threading.Event(), threading.Event()

    def body(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.backward()
        if step == self.halt_at:
            self.forward_done.set()
            assert self.go_on.wait(30)
        self.optimizer.step()


def stopped_after_forward(loop: WithLayer, root: Path, monkeypatch: pytest.MonkeyPatch, snapshot: str = "auto") -> None:
    loop.halt_at = 6
    closing = Gate.close

    def close(gate: Gate[Any]) -> None:
        closing(gate)
        loop.go_on.set()

    monkeypatch.setattr(Gate, "close", close)
    loop.run(root, every=4, stop_on=loop.forward_done, snapshot=snapshot)


@pytest.mark.parametrize("snapshot", ["eager", "deferred", "streaming"])
@pytest.mark.parametrize("layer", [Counting, Renamed, Replacing, Copying, Doubling, Widening, wrapped])
def test_stopped_after_a_forward_pass_it_ends_with_the_same_weights(tmp_path, monkeypatch, layer, snapshot):
    truth = WithLayer(layer).run(tmp_path / "truth")
    stopped_after_forward(WithLayer(layer), tmp_path / "line", monkeypatch, snapshot)
    assert same(WithLayer(layer).run(tmp_path / "line"), truth)


@pytest.mark.parametrize(("layer", "saved"), [(Renamed, 6), (Replacing, 6), (wrapped, 6), (Counting, 7), (Doubling, 7)])
def test_only_what_a_boundary_holds_is_saved_for_it_in_the_step_after(tmp_path, monkeypatch, layer, saved):
    stopped_after_forward(WithLayer(layer), tmp_path, monkeypatch)
    assert steps_on(tmp_path)[-1] == saved


def test_a_buffer_that_does_not_take_the_checkpoints_shape_is_refused_by_name(tmp_path):
    WithLayer(Deaf).run(tmp_path, total=4)
    with pytest.raises(
        Refusal, match=r"1\.average of the model is of shape \[8\] in the checkpoint.*nothing may start"
    ):
        WithLayer(Deaf).run(tmp_path, total=8)


class Lookahead:
    """An optimizer around another: it shows the groups of that one, and keeps its state one level deeper."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        self.count = 0
        self.slow = [p.detach().clone() for group in inner.param_groups for p in group["params"]]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.inner.param_groups

    def zero_grad(self) -> None:
        self.inner.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        self.inner.step()
        self.count += 1
        if self.count % 3 == 0:
            for slow, fast in zip(self.slow, self.param_groups[0]["params"], strict=True):
                fast.copy_(slow.lerp_(fast, 0.5))

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.inner.state_dict(), "slow": self.slow, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state["inner"])
        self.slow, self.count = state["slow"], state["count"]


class LookingAhead(Loop):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = Lookahead(self.optimizer)


@pytest.mark.parametrize("snapshot", ["eager", "deferred", "streaming"])
def test_an_optimizer_around_another_is_resumed(tmp_path, snapshot):
    truth = LookingAhead().run(tmp_path / "truth")
    LookingAhead().run(tmp_path / "line", every=2, stop_at=6, snapshot=snapshot)
    LookingAhead().run(tmp_path / "line", every=2, kill_at=10, snapshot=snapshot)
    assert same(LookingAhead().run(tmp_path / "line"), truth)
