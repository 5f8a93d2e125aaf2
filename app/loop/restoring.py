"""Putting a loaded state back exactly: what does not fit is refused by name, and nothing is cast on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from app.contract import Refusal
from app.loop.accumulation import parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn
    from torch.optim import Optimizer

    from app.loop.program import Stateful

NAMED = 8
"""So many differences are listed; the rest is counted."""


def load_model(key: str, model: nn.Module, saved: dict[str, Any]) -> None:
    """`load_state_dict` would cast silently where dtypes differ: that is refused too. Raises Refusal."""
    here = {name: value for name, value in model.state_dict().items() if hasattr(value, "dtype")}
    there = {name: value for name, value in saved.items() if hasattr(value, "dtype")}
    wrong = [f"{name} is missing in the checkpoint" for name in sorted(here.keys() - there.keys())]
    wrong += [f"{name} is only in the checkpoint" for name in sorted(there.keys() - here.keys())]
    for name in sorted(here.keys() & there.keys()):
        ours, theirs = here[name], there[name]
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            wrong.append(f"{name} is {theirs.dtype} {list(theirs.shape)} there, {ours.dtype} {list(ours.shape)} here")
    if wrong:
        more = f", and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        raise Refusal(f"The checkpoint is of another {key}: {'; '.join(wrong[:NAMED])}{more}. Nothing was changed.")
    model.load_state_dict(saved)


def load_optimizer(key: str, optimizer: Optimizer | Stateful, saved: dict[str, Any]) -> None:
    """Raises Refusal. An optimizer that is not torch's gets its state as it is."""
    try:
        optimizer.load_state_dict(saved)
    except (ValueError, KeyError) as error:
        raise Refusal(f"The checkpoint's {key} does not fit: {error}. The checkpoint was not changed.") from error
    if not hasattr(optimizer, "param_groups") or "state" not in saved:
        return
    optimizer = cast("Optimizer", optimizer)
    # load_state_dict casts to the parameter's dtype: an fp32 moment of a bf16 parameter would lose bits.
    indices = [index for group in saved["param_groups"] for index in group["params"]]
    for parameter, index in zip(parameters(optimizer), indices, strict=True):
        if index in saved["state"]:
            optimizer.state[parameter] = _exact(optimizer.state[parameter], saved["state"][index])


def load_gradients(named: Mapping[str, nn.Parameter], saved: dict[str, Any]) -> None:
    """Gradients that were pending; 0 stands for zeros, and every other parameter has none. Raises Refusal."""
    if unknown := sorted(saved.keys() - named.keys()):
        raise Refusal(
            f"The checkpoint holds unused gradients of {', '.join(unknown[:NAMED])}, which this program does not have. "
            "Give the session the same model and optimizer under the same names. The checkpoint was not changed."
        )
    for name, parameter in named.items():
        gradient = saved.get(name)
        if gradient is None:
            parameter.grad = None
        elif hasattr(gradient, "dtype"):
            parameter.grad = gradient.to(parameter.device)
        else:
            parameter.grad = parameter.detach().new_zeros(parameter.shape)


def _exact(loaded: Any, saved: Any) -> Any:
    """`loaded` with every tensor whose dtype changed replaced by the saved one, on the device where it was loaded."""
    if hasattr(saved, "dtype") and hasattr(loaded, "dtype"):
        return loaded if loaded.dtype == saved.dtype else saved.to(loaded.device)
    if isinstance(saved, dict):
        return {name: _exact(loaded[name], value) for name, value in cast("dict[Any, Any]", saved).items()}
    if isinstance(saved, (list, tuple)):
        pairs = zip(loaded, cast("list[Any]", saved), strict=True)
        return type(saved)(_exact(ours, theirs) for ours, theirs in pairs)
    return loaded
