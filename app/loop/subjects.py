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


def named(role: str, given: Any) -> dict[str, Any]:
    """`{"model": m}` for one object, `{"model.a": m, ...}` for a mapping, in order of names."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {f"{role}.{name}": each for name, each in sorted(cast("Mapping[str, Any]", given).items())}
    return {role: given}


def stateful(role: str, given: Any) -> dict[str, Stateful]:
    found = named(role, given)
    for key, each in found.items():
        if not isinstance(each, Stateful):
            raise Refusal(
                f"{key}= is a {type(each).__qualname__}, which has no state_dict() and load_state_dict(), so its "
                "position cannot be saved. Wrap a plain DataLoader in app.data.Batches, or use torchdata's "
                "StatefulDataLoader."
            )
    return found
