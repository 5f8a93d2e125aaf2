"""Programs that change what they train in other ways than by one optimizer's step at the end of each of theirs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.engine.loops import Averaging, MicroSteps, Wide


class Clipped(Wide):
    """Weights are clipped past the optimizer after its step."""

    def body(self, step: int) -> None:
        super().body(step)
        for parameter in self.model.parameters():
            parameter.data.clamp_(-0.1, 0.1)


class Averaged(Averaging, Wide):
    """At the top of each step, through `.data`: no version tells of it."""

    def body(self, step: int) -> None:
        for ours, live in zip(self.average.parameters(), self.model.parameters(), strict=True):
            ours.data.lerp_(live.data, 0.1)
        super().body(step)


class Accumulating(MicroSteps, Wide):
    """A step is a micro-batch."""


class TwoOptimizers(Wide):
    def __init__(self) -> None:
        super().__init__()
        first, last = self.model[0], self.model[3]
        self.optimizer = {"a": torch.optim.Adam(first.parameters()), "b": torch.optim.SGD(last.parameters(), lr=0.1)}

    def body(self, step: int) -> None:
        self.backward()
        for each in self.optimizer.values():
            each.step()
            each.zero_grad()


class Skipping(Wide):
    """As a GradScaler that finds infinities: every other step updates nothing."""

    def body(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.backward()
        if step % 2:
            self.optimizer.step()


class WithClosure(Wide):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=2)

    def body(self, step: int) -> None:
        x = torch.randn(6, 4)

        def loss() -> torch.Tensor:
            self.optimizer.zero_grad()
            found = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
            found.backward()
            return found

        self.optimizer.step(loss)


class Duck:
    """An optimizer that is not torch's: no hook of torch sees it."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.moments = [torch.zeros_like(p) for p in parameters]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        for parameter, moment in zip(self.parameters, self.moments, strict=True):
            assert parameter.grad is not None
            moment.mul_(0.9).add_(parameter.grad)
            parameter.data.sub_(moment, alpha=1e-4)

    def state_dict(self) -> dict[str, Any]:
        return {"moments": self.moments}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for ours, saved in zip(self.moments, state_dict["moments"], strict=True):
            ours.copy_(saved)


class Ducked(Wide):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = Duck(list(self.model.parameters()))


class StepReplaced(Wide):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer.step = self.update

    def update(self) -> None:
        for parameter in self.model.parameters():
            parameter.data -= 1e-4 * parameter.grad


class StepReplacedLater(StepReplaced):
    """It was seen at the gate before."""

    def __init__(self) -> None:
        super().__init__()
        del self.optimizer.step

    def body(self, step: int) -> None:
        if step == 2:
            self.optimizer.step = self.update
        super().body(step)


PROVABLE = [Wide, Clipped, Averaged, Accumulating, TwoOptimizers, Skipping, WithClosure]
UNPROVABLE = [Ducked, StepReplaced]
