"""The objects of a session by name: what the user gave, as one object or a mapping of names to objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from app.contract import Refusal
from app.loop.accumulation import parameters

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


@runtime_checkable
class Stateful(Protocol):
    """Anything whose position or state a checkpoint can hold."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


def by_name(models: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer]) -> dict[str, nn.Parameter]:
    """Every parameter once: under its model's key and its name there, or its optimizer's key and its number."""
    found = {f"{key}.{name}": each for key, model in models.items() for name, each in model.named_parameters()}
    known = {id(each) for each in found.values()}
    for key, optimizer in optimizers.items():
        found |= {f"{key}.{n}": each for n, each in enumerate(parameters(optimizer)) if id(each) not in known}
    return found


def of_torch_kind(optimizers: Mapping[str, Optimizer | Stateful]) -> dict[str, Optimizer]:
    """Those with parameter groups: of any other neither parameters nor gradients are known."""
    return {key: cast("Optimizer", each) for key, each in optimizers.items() if hasattr(each, "param_groups")}


def given_as(role: str, given: Any) -> dict[str, Any]:
    """`{"model": m}` for one object, `{"model.a": m, ...}` for a mapping, in order of names.

    Raises Refusal for a name that is no text, and for what a checkpoint cannot hold the state of.
    """
    if given is None:
        return {}
    found = {role: given}
    if isinstance(given, Mapping):
        names = cast("Mapping[Any, Any]", given)
        if odd := [name for name in names if type(name) is not str or not name]:
            raise Refusal(
                f"{role}= has an object named {odd[0]!r}; names must be text and not empty, because checkpoints and "
                f'messages use them: {role}={{"live": ..., "average": ...}}.'
            )
        found = {f"{role}.{name}": names[name] for name in sorted(names)}
    for key, each in found.items():
        _refuse_what_has_no_state(role, key, each)
    return found


def _refuse_what_has_no_state(role: str, key: str, each: Any) -> None:
    if not isinstance(each, type) and isinstance(each, _module() if role == "model" else Stateful):
        return
    what = f"the class {each.__qualname__} itself" if isinstance(each, type) else f"a {type(each).__qualname__}"
    if role == "model":
        raise Refusal(f"{key}= is {what}, which is no torch.nn.Module. Give the session the module that is trained.")
    hint = {
        "data": "Wrap a plain DataLoader in app.data.Batches, or use torchdata's StatefulDataLoader.",
        "optimizer": "Give the session the optimizer, as torch.optim.AdamW(model.parameters()) makes one.",
    }.get(role, f"Give the session an object with both, or leave {role}= out.")
    raise Refusal(
        f"{key}= is {what}, which has no state_dict() and load_state_dict(), so its state cannot be saved. {hint}"
    )


def _module() -> type[nn.Module]:
    """Imported only where there is a model: a program may do without torch."""
    from torch.nn import Module

    return Module


def refuse_what_cannot_be_put_back(states: Mapping[str, Mapping[str, Any]]) -> None:
    """Tensors that no `load_state_dict` can fill: they could be saved, and never be resumed. Raises Refusal.

    `states` are the models' by key, with parameters as such.
    """
    if not states:
        return
    import torch
    from torch.nn.parameter import is_lazy

    for key, state in states.items():
        for name, value in state.items():
            if is_lazy(value):
                why = "has no shape yet. Call the model once before the session begins"
            elif type(value) not in {torch.Tensor, torch.nn.Parameter} or value.layout is not torch.strided:
                continue
            elif value.is_inference() and type(value) is torch.Tensor:  # into a parameter it can
                why = "was made in inference mode, so nothing can be loaded into it. Make it outside, or clone it"
            elif any(not step and side > 1 for step, side in zip(value.stride(), value.shape, strict=True)):
                why = "repeats one value in memory (expand), so nothing can be loaded into it. Make it contiguous()"
            else:
                continue
            raise Refusal(f"{key}: {name} {why}.")


def refuse_shared_names(states: Mapping[str, Mapping[str, Any]]) -> None:
    """Names of a model's tensors behind the model's own must tell them apart. Raises Refusal, naming both models."""
    owners = dict[str, str]()
    for key, state in states.items():
        for name in state:
            full = f"{key}.{name}"
            if (other := owners.setdefault(full, key)) != key:
                names = " and ".join(repr(each.removeprefix("model.")) for each in sorted((other, key)))
                raise Refusal(
                    f"The models named {names} both have a tensor that checkpoints would call "
                    f"{full.removeprefix('model.')}. Give one of them another name, without a dot."
                )
