"""A number that becomes another one when parameters or optimizer state are changed by hand.

Each tensor's version counter rises with every in-place operation but those through `.data`. A parameter that is given
other memory (`p.data = other`, `model.to(dtype)`) is found by its address; state that is given other tensors or values
(`optimizer.state[p] = ...`, `load_state_dict`), and a group that is added, by their identities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from app.loop.accumulation import parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch
    from torch.optim import Optimizer


def of(own: Sequence[torch.Tensor], optimizers: Iterable[Optimizer]) -> int:
    """About a millisecond for a thousand parameters with the state of Adam, so nothing here reads a value."""
    return hash((_of_parameters(own), *(_of_optimizer(each) for each in optimizers)))


def _of_parameters(own: Sequence[torch.Tensor]) -> int:
    import torch

    ordinary = [p for p in own if not p.is_inference()]
    plain = {torch.nn.Parameter, torch.Tensor}
    return hash(
        (
            tuple([p._version for p in ordinary]),
            tuple([p.data_ptr() for p in ordinary if type(p) in plain]),  # of a subclass, perhaps there is none
            tuple([p.dtype for p in ordinary]),
        )
    )


def _of_optimizer(optimizer: Optimizer) -> int:
    import torch

    values = list[Any]()
    for each in getattr(optimizer, "state", {}).values():
        values += cast("dict[str, Any]", each).values() if type(each) is dict else [each]
    for value in values:  # grows meanwhile: what lies in lists, as with L-BFGS, comes behind
        if type(value) in (list, tuple):
            values += value
    tensors = [value for value in values if type(value) is torch.Tensor]  # isinstance takes ten times as long here
    return hash(
        (
            tuple(map(id, parameters(optimizer))),
            tuple(map(id, values)),
            tuple([tensor._version for tensor in tensors if not tensor.is_inference()]),
        )
    )
