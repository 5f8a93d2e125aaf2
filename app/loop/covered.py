"""What of a model's state a boundary holds: its buffers, whatever they are called there, and nothing that is made anew.

Mostly a buffer has one name. Hooks may give it another in the state (torch's `checkpoint_wrapper` takes its
prefix out); and a state may hold more than parameters and buffers: extra state, or what a module makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from torch import nn


@dataclass(frozen=True)
class Covered:
    known: frozenset[str]
    """Names of the model's buffers; with others this has to be found again."""
    buffers: Mapping[str, str]
    """Name in the state -> name of the buffer."""
    beyond: tuple[str, ...]
    """Names in the state of what is neither a parameter nor a buffer: it is what it is when it is read."""


def of(model: nn.Module) -> Covered:
    """Of its state as it is now."""
    own = dict(model.named_buffers(remove_duplicate=False))
    names = {key: name for name, buffer in reversed(own.items()) for key in _keys(buffer)}
    parameters = {key for parameter in model.parameters() for key in _keys(parameter)}
    buffers, beyond = dict[str, str](), list[str]()
    for name, value in model.state_dict(keep_vars=True).items():
        if name in own and own[name] is value:
            buffers[name] = name
        elif (found := next((names[key] for key in _keys(value) if key in names), None)) is not None:
            buffers[name] = found
        elif not any(key in parameters for key in _keys(value)):
            beyond.append(name)
    return Covered(frozenset(own), buffers, tuple(beyond))


def _keys(value: Any) -> Iterator[Hashable]:
    """What tells that two tensors are one: themselves, or that they are the same view of the same memory."""
    import torch

    yield id(value)
    if type(value) in {torch.Tensor, torch.nn.Parameter} and value.layout is torch.strided and value.data_ptr():
        yield value.device, value.data_ptr(), value.dtype, value.shape, value.stride()
