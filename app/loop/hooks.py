"""Where the gate stands: before and after each update of an optimizer, and before each batch of data that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle

    from app.loop.boundary import Boundary
    from app.loop.gate import Gate
    from app.loop.program import Program


@runtime_checkable
class Holdable(Protocol):
    """Data that asks before each batch whether a stop holds the program."""

    hold: Callable[[], None]


class Hooks:
    def __init__(self, program: Program, gate: Gate[Boundary]) -> None:
        self._program = program
        self._gate = gate
        self._removable: list[RemovableHandle] = []

    def connect(self) -> None:
        if self._program.optimizers:
            from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

            self._removable.append(register_optimizer_step_pre_hook(self._before_update))
            self._removable.append(register_optimizer_step_post_hook(self._after_update))
        for each in self._program.others.values():
            if isinstance(each, Holdable):
                each.hold = self._gate.wait_if_held

    def remove(self) -> None:
        for hook in self._removable:
            hook.remove()

    def _before_update(self, optimizer: Optimizer, *_: object) -> None:
        if self._program.concerns(optimizer):
            self._gate.enter_update()
            self._program.update_begins(optimizer)

    def _after_update(self, optimizer: Optimizer, *_: object) -> None:
        if self._program.concerns(optimizer):
            self._program.update_ended(optimizer)
