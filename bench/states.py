"""What is saved: a model with AdamW of a wanted size and a step that trains it; or many small tensors."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the field's name for it

LAYERS = 24


class Stack(nn.Module):
    """Square layers with a residual each: as many parameters as wanted, cheap to run."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + 0.1 * F.gelu(layer(x))
        return x


class Training:
    """Model, optimizer and one step. State: parameters and two moments in float32, `size_bytes` in all, nearly."""

    def __init__(self, size_bytes: int, *, stepped: bool = True) -> None:
        """`stepped`: make the optimizer's state by a first step, as any program that saves has done."""
        torch.manual_seed(0)
        width = max(8, int(math.sqrt(size_bytes / 12 / LAYERS)) // 8 * 8)
        self.model = Stack(width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self._x = torch.randn(16, width)
        if stepped:
            self.step()

    def step(self) -> None:
        loss = (self.model(self._x) - self._x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state(self) -> dict[str, Any]:
        """The live tensors, as a training script gives them to a saver."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def lengthen_steps(self, wanted_s: float) -> float:
        """Enlarge the batch until a step takes `wanted_s`; returns what it takes now, in seconds."""
        while (took := self._shortest_step_s()) < wanted_s and self._x.shape[0] < 4096:
            self._x = torch.randn(2 * self._x.shape[0], self._x.shape[1])
        return took

    def _shortest_step_s(self) -> float:
        """Of a few: what a step takes when nothing else runs."""
        found = list[float]()
        for _ in range(5):
            began = time.perf_counter()
            self.step()
            found.append(time.perf_counter() - began)
        return min(found)


def tensors(count: int, size_bytes: int) -> dict[str, torch.Tensor]:
    """`count` tensors of float32, together `size_bytes`, nearly."""
    each = max(1, size_bytes // 4 // count)
    return {f"t{number:05d}": torch.randn(each) for number in range(count)}


def nbytes(state: object) -> int:
    """Bytes of all tensors in a tree of dicts and lists."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    if isinstance(state, dict):
        return sum(nbytes(value) for value in state.values())
    if isinstance(state, list):
        return sum(nbytes(value) for value in state)
    return 0
