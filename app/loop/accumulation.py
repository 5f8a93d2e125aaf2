"""Gradients that no optimizer has used yet, as in the middle of an accumulation: they are part of the state."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch
    from torch.optim import Optimizer

Mark = tuple["weakref.ref[torch.Tensor]", int]
"""Which tensor a gradient is, and its version: it holds the same values as long as both are the same."""


class Accumulation:
    """What tells: whether a gradient is another than the one its optimizer used last, by `Mark`."""

    def __init__(self) -> None:
        self._seen = dict[int, object]()
        self._used = dict[int, Mark]()

    def was_seen(self, optimizer: object) -> bool:
        """Whether it came to the gate in this process and has the same `step` still: a replaced one may not come."""
        return id(optimizer) in self._seen and self._seen[id(optimizer)] == getattr(optimizer, "step", None)

    def update_begins(self, optimizer: Optimizer) -> None:
        """From the gate."""
        self._seen[id(optimizer)] = optimizer.step

    def update_ended(self, optimizer: Optimizer) -> None:
        """This optimizer has used its gradients up. After the update, because a fused one unscales them in place."""
        for parameter in parameters(optimizer):
            if (gradient := parameter.grad) is not None:
                self._used[id(parameter)] = _mark(gradient)

    def pending(self, named: Mapping[str, torch.nn.Parameter]) -> dict[str, Mark]:
        """Those of `named` that hold a gradient which was not used. Gradients left over from an update are not."""
        return {
            name: _mark(gradient)
            for name, parameter in named.items()
            if (gradient := parameter.grad) is not None and not is_still(self._used.get(id(parameter)), gradient)
        }


def is_still(mark: Mark | None, gradient: torch.Tensor | None) -> bool:
    """Whether this is the marked gradient with the values it had then."""
    return mark is not None and gradient is not None and mark[0]() is gradient and mark[1] == gradient._version


def parameters(optimizer: Optimizer) -> Iterator[torch.nn.Parameter]:
    """Those it updates, in the order of its groups."""
    for group in optimizer.param_groups:
        yield from group["params"]


def _mark(gradient: torch.Tensor) -> Mark:
    return weakref.ref(gradient), gradient._version
