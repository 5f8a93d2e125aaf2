"""Gradients that no optimizer has used yet: a boundary in the middle of an accumulation cannot be saved.

What tells: whether an optimizer came to the gate since the last boundary and, of one that did not, whether it holds
gradients other than those it has used up already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch
    from torch.optim import Optimizer

_Gradients = list[tuple[int, int]]
"""Identity and version of each gradient there is."""


class Accumulation:
    """Optimizers are told apart by identity; each is one of a torch kind (it has parameter groups)."""

    def __init__(self) -> None:
        self._seen = set[int]()
        self._updated = set[int]()
        self._used = dict[int, _Gradients]()
        self._probes: dict[int, torch.Tensor] = {}

    def was_seen(self, optimizer: object) -> bool:
        """Whether it ever came to the gate in this process: one whose `step` was replaced never does."""
        return id(optimizer) in self._seen

    def update_begins(self, optimizer: Optimizer) -> None:
        """From the gate: this optimizer uses its gradients up."""
        key = id(optimizer)
        self._seen.add(key)
        self._updated.add(key)
        self._used[key] = _gradients(optimizer)

    def is_half_done(self, optimizers: Iterable[Optimizer]) -> bool:
        """Once at each boundary: whether gradients are pending that no optimizer has used.

        Gradients left over from the last update do not count; new ones show as other tensors or higher versions. Of an
        optimizer that never came to the gate, whether a parameter moved since the last boundary tells.
        """
        updated, self._updated = self._updated, set()
        for optimizer in optimizers:
            key = id(optimizer)
            if key in updated:
                continue
            moved = key not in self._seen and self._moved(optimizer)
            pending = _gradients(optimizer)
            if pending and pending != self._used.get(key) and not moved:
                return True
        return False

    def _moved(self, optimizer: Optimizer) -> bool:
        """Whether its smallest parameter differs from what it was at the last call."""
        probe = min(parameters(optimizer), key=lambda parameter: parameter.numel())
        before, self._probes[id(optimizer)] = self._probes.get(id(optimizer)), probe.detach().clone()
        return before is not None and not bool((before == probe).all())


def parameters(optimizer: Optimizer) -> Iterator[torch.nn.Parameter]:
    """Those it updates, in the order of its groups."""
    for group in optimizer.param_groups:
        yield from group["params"]


def _gradients(optimizer: Optimizer) -> _Gradients:
    return [(id(p.grad), p.grad._version) for p in parameters(optimizer) if p.grad is not None]
