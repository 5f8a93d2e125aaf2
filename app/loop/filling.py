"""Which of the program's tensors a checkpoint's bytes may go straight into, decided before one of them is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from app.checkpoint.shards.values import lies_plainly
from app.checkpoint.skeleton import UNREAD
from app.checkpoint.table import Place
from app.contract import Refusal
from app.loop import own_ways
from app.loop.restoring import form, numbered, refuse_another_model

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.optim import Optimizer

    from app.loop.subjects import Stateful

Claims = list[tuple[str, "torch.Tensor"]]
"""Path in the state, and the tensor whose bytes lie there."""


def values_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """The tensors of its state by name, parameters as such."""
    return {name: value for name, value in model.state_dict(keep_vars=True).items() if hasattr(value, "dtype")}


def of_model(key: str, model: nn.Module, values: Mapping[str, torch.Tensor], saved: Any) -> Claims:
    """Parameters and buffers. Raises Refusal for names, shapes or dtypes that differ.

    A module that loads its state in a way of its own, and all below it, is left to that: its tensors need not be what
    is saved under their names.
    """
    places = {name: place for name, place in _items(saved) if isinstance(place, Place)}
    here = {name: form(value) for name, value in values.items()}
    there = {name: (place.dtype, place.shape) for name, place in places.items()}
    unread = {name: here[name] for name, value in _items(saved) if value is UNREAD and name in here}
    plain = own_ways.plainly_loaded(model)
    refuse_another_model(key, here, there | unread, own_ways.may_grow(values, plain))
    return [(places[name].path, value) for name, value in values.items() if id(value) in plain and name in places]


def of_optimizer(key: str, optimizer: Optimizer | Stateful, saved: Any) -> Claims:
    """State that is there already, of the same dtype and shape. Raises Refusal for other groups of parameters."""
    if not hasattr(optimizer, "param_groups") or not isinstance(saved, dict) or "state" not in saved:
        return []
    optimizer, saved = cast("Optimizer", optimizer), cast("dict[str, Any]", saved)
    there = [len(group["params"]) for group in saved["param_groups"]]
    here = [len(group["params"]) for group in optimizer.param_groups]
    if there != here:
        raise Refusal(
            f"The checkpoint's {key} does not fit: its groups have {there} parameters, this program's {here}. Nothing "
            "was changed."
        )
    for number, (group, ours) in enumerate(zip(saved["param_groups"], optimizer.param_groups, strict=True)):
        missing, unknown = sorted(ours.keys() - group.keys()), sorted(group.keys() - ours.keys())
        if missing and unknown:  # one side alone: another version of torch, which fills in what it added
            raise Refusal(
                f"The checkpoint's {key} is another kind of optimizer: its group {number} has {', '.join(unknown)} and "
                f"no {', '.join(missing)}. Nothing was changed. Give the session the kind that it was made with."
            )
    state = saved["state"]
    return [
        (place.path, value)
        for index, parameter in numbered(optimizer, saved).items()
        for name, place in _items(state.get(index))
        if isinstance(place, Place)
        and lies_plainly(value := optimizer.state.get(parameter, {}).get(name))
        and form(value) == (place.dtype, place.shape)
    ]


def apart(claims: Claims) -> dict[str, torch.Tensor]:
    """By path, those in host memory; none that shares memory with one before: what is read last would decide."""
    found = dict[str, "torch.Tensor"]()
    end = 0
    plain = [claim for claim in claims if lies_plainly(claim[1])]
    for path, tensor in sorted(plain, key=lambda claim: claim[1].data_ptr()):
        if tensor.data_ptr() >= end and path not in found:
            found[path] = tensor
            end = tensor.data_ptr() + tensor.nbytes
    return found


def _items(values: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(values, Mapping):
        yield from cast("Mapping[Any, Any]", values).items()
