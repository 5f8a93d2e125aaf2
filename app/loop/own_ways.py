"""Modules that load their state in a way of their own, with all below them, and what follows for their tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    import torch
    from torch import nn


def plainly_loaded(model: nn.Module) -> set[int]:
    """Identities of the tensors that torch's own code loads, without hooks."""
    return {id(tensor) for tensor in _tensors_of_plain_modules(model)}


def may_grow(values: Mapping[str, torch.Tensor], plain: Set[int]) -> set[str]:
    """Buffers of the other modules: loading may give them another shape. `values` are the model's, by name.

    As that of torch's observers, whose limits are empty until they have seen a tensor.
    """
    import torch

    return {name for name, value in values.items() if type(value) is torch.Tensor and id(value) not in plain}


def _tensors_of_plain_modules(model: nn.Module) -> Iterator[torch.Tensor]:
    """Tensors of the modules that torch's own code loads, without hooks."""
    if _has_its_own_way(model):
        return
    yield from model.parameters(recurse=False)
    yield from model.buffers(recurse=False)
    for child in model.children():
        yield from _tensors_of_plain_modules(child)


def _has_its_own_way(module: nn.Module) -> bool:
    from torch import nn

    kind, own = type(module), vars(module)
    return (
        any(own.get(name) for name in _HOOKS)
        or any(name in own for name in (*_WHOLE, *_EACH))
        or any(getattr(kind, name) is not getattr(nn.Module, name) for name in _WHOLE)
        or not all(getattr(kind, name).__module__.startswith("torch.nn.modules.") for name in _EACH)
    )


_HOOKS = ("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_state_dict_hooks", "_state_dict_pre_hooks")
_WHOLE = ("load_state_dict", "state_dict")
_EACH = ("_load_from_state_dict", "_save_to_state_dict")
"""Methods that a module may replace; torch's own replace the last two, for buffers that older versions lacked."""
