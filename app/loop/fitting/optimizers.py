"""An optimizer's state, as far as it is of torch's format: groups, parameters by number, moments by parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from app.checkpoint.skeleton import UNREAD
from app.checkpoint.table import Place
from app.contract import Refusal
from app.loop.accumulation import parameters
from app.loop.fitting.kinds import refuse_other_kinds
from app.loop.fitting.sense import demand

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from app.loop.subjects import Stateful

_MAY_BE_NONE = {"momentum_buffer"}
_OF_ANY_SHAPE = {"Adafactor", "LBFGS"}
"""Optimizers of torch whose state has other shapes than their parameters."""
_HOOKS = ("_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks")
"""With one of them an optimizer's saved state is in a format of the program's own."""
_BY_SCHEDULERS = {"initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr"}
"""What torch's schedulers keep in a group. What else a program keeps there may become anything."""


def refuse_optimizer(key: str, optimizer: Optimizer | Stateful, saved: Any) -> None:
    """One of torch's format. Raises Damaged, and Refusal for groups whose settings are of other kinds."""
    if not _is_of_torchs_format(optimizer):
        return
    demand(isinstance(saved, Mapping), key, "is no dict")
    state, groups = saved.get("state"), saved.get("param_groups")
    demand(isinstance(state, Mapping), key, "has no state")
    demand(type(groups) is list, key, "has no param_groups")
    for group in groups:
        demand(isinstance(group, Mapping) and type(group.get("params")) is list, key, "has a group without params")
    numbers = [number for group in groups for number in group["params"]]
    demand(set(map(type, numbers)) <= {int}, key, "numbers params oddly")
    known = set(numbers)
    beyond = [number for number in state if type(number) is int and number not in known]
    demand(not beyond, key, f"has state of parameter {beyond[:1]}, which is in no group")
    ours = [id(each) for each in parameters(optimizer)]  # one that a group was given twice has one number
    if len(numbers) == len(ours) and len(known) != len(set(ours)):
        raise Refusal(
            f"The checkpoint's {key} has {len(known)} different parameters in its groups, this program's "
            f"{len(set(ours))}. Nothing was changed. Give it the parameters as they were given when the checkpoint was "
            "made."
        )
    for number, (there, here) in enumerate(zip(groups, optimizer.param_groups, strict=False)):
        own = optimizer.defaults.keys() | _BY_SCHEDULERS
        refuse_other_kinds(f"{key}, group {number}", {name: here[name] for name in here if name in own}, there)


def refuse_state(key: str, optimizer: Optimizer | Stateful, saved: Mapping[str, Any]) -> None:
    """Of torch's own optimizers: moments are as large as their parameters, counts are numbers. Raises Refusal."""
    kind = type(optimizer)
    if not _is_of_torchs_format(optimizer) or not kind.__module__.startswith("torch.optim."):
        return
    if kind.__name__ in _OF_ANY_SHAPE:
        return
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    shapes = [tuple(parameter.shape) for parameter in parameters(optimizer)]
    states = [saved["state"].get(number, {}) for number in numbers]
    if odd := [number for number, each in zip(numbers, states, strict=True) if type(each) is not dict]:
        raise _other_state(key, odd[0], "no dict")
    for name in {name for each in states for name in each}:
        column = [each.get(name) for each in states]
        if [each.shape if type(each) is Place else () for each in column] == shapes and name != "step":
            continue
        for number, shape, value, each in zip(numbers, shapes, column, states, strict=True):
            if type(value) is Place:
                fits = value.shape in {(), (1,)} or (value.shape == shape and name != "step")
                if not fits or value.kind != "tensor":
                    raise _other_state(key, number, f"{name} of shape {list(value.shape)}")
            elif not (
                value is UNREAD or _is_number(value) or (value is None and (name in _MAY_BE_NONE or name not in each))
            ):
                raise _other_state(key, number, f"{value!r:.40} as {name}")
    for number, each in zip(numbers, states, strict=True):
        if "exp_avg" in each or "exp_avg_sq" in each:
            needed = {"step", "exp_avg", "exp_inf" if "exp_inf" in each else "exp_avg_sq"}
            if lacking := sorted(needed - each.keys()):
                raise _other_state(key, number, f"no {', '.join(lacking)}")


def _is_of_torchs_format(optimizer: Optimizer | Stateful) -> TypeGuard[Optimizer]:
    from torch.optim import Optimizer as Base

    return (
        isinstance(optimizer, Base)
        and type(optimizer).state_dict is Base.state_dict
        and not any(vars(optimizer).get(name) for name in _HOOKS)
    )


def _other_state(key: str, number: object, told: str) -> Refusal:
    return Refusal(
        f"The checkpoint's {key} has, as state of its parameter {number}, {told}: that is another "
        "optimizer's, or none. Nothing was changed. Give the session the optimizer that it was made with."
    )


def _is_number(value: Any) -> bool:
    return type(value) in {int, float, bool}
