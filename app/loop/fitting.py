"""Whether a checkpoint's state can be that of this program, told by its tree before one of its bytes is read.

Two ends: what is no state of any program (a list where names belong) is Damaged, and an older checkpoint is tried. What
another program may have written (other names, another kind of scheduler) is refused, because it may be this one that
is wrong. Neither says anything of values: a learning rate of a million is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from app.checkpoint.manifest import Damaged
from app.checkpoint.skeleton import UNREAD
from app.checkpoint.table import Place
from app.contract import Refusal
from app.loop.accumulation import parameters

if TYPE_CHECKING:
    from torch import nn
    from torch.amp.grad_scaler import GradScaler
    from torch.optim import Optimizer

    from app.loop.subjects import Stateful

_ALWAYS = ("last_epoch", "_step_count", "base_lrs", "_last_lr")
"""What torch's schedulers have had in every version, each those that it has."""
_MAY_BE_NONE = {"momentum_buffer"}
_MOST = 2**63
"""No whole number that a program counts is larger."""
_OF_ANY_SHAPE = {"Adafactor", "LBFGS"}
"""Optimizers of torch whose state has other shapes than their parameters."""
_HOOKS = ("_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks")
"""With one of them an optimizer's saved state is in a format of the program's own."""
_BY_SCHEDULERS = {"initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr"}
"""What torch's schedulers keep in a group. What else a program keeps there may become anything."""
_ONE_A_GROUP = {"_last_lr", "min_lrs"}
"""Lists that a scheduler makes anew when its optimizer has been given another group."""


def refuse_senseless(saved: Mapping[Any, Any], models: Mapping[str, nn.Module]) -> None:
    """The parts that are not an object's own. Raises Damaged."""
    for key in saved:
        _demand(type(key) is str, "its state", f"has the key {key!r}")
    for name in ("versions", "orders", "gradients"):
        _demand(isinstance(saved.get(name, {}), Mapping), name, "is no dict")
    for key, told in saved.get("versions", {}).items():
        _demand(isinstance(told, Mapping), f"versions of {key}", "are none")
        if odd := set(map(type, told.values())) - {int}:
            # Torch's own are numbers; a class of the program's may call its version as it likes.
            own = {type(getattr(module, "_version", 1)) for model in models.values() for module in model.modules()}
            _demand(odd <= own, f"versions of {key}", "are none")
    for key, told in saved.get("orders", {}).items():
        _demand(type(told) is list and set(map(type, told)) <= {str}, f"orders of {key}", "are none")
    for name, gradient in saved.get("gradients", {}).items():
        sound = _is_tensor(gradient) or (type(gradient) is int and gradient == 0)
        _demand(sound, f"gradients of {name}", "are none")


def refuse_model(key: str, values: Mapping[str, Any], saved: Any) -> None:
    """`values` are the model's tensors, and what else of its extra state has a dtype. Raises Damaged."""
    _demand(isinstance(saved, Mapping), key, "is no dict")
    _demand(set(map(type, saved)) <= {str}, key, "has names that are no text")
    arrays = [
        name
        for name, each in saved.items()
        if type(each) is Place and each.kind != "tensor" and hasattr(values.get(name), "numel")
    ]
    _demand(not arrays, key, f"has an array as {arrays[:1]}")


def refuse_gradients(named: Mapping[str, nn.Parameter], saved: Mapping[str, Any]) -> None:
    """Raises Refusal."""
    for name, place in saved.items():
        if name in named and type(place) is Place and place.shape != tuple(named[name].shape):
            raise Refusal(
                f"The checkpoint's gradients of {name} are of shape {list(place.shape)}, the parameter is of "
                f"{list(named[name].shape)}. Nothing was changed."
            )


def refuse_optimizer(key: str, optimizer: Optimizer | Stateful, saved: Any) -> None:
    """One of torch's format. Raises Damaged, and Refusal for groups whose settings are of other kinds."""
    if not _is_of_torchs_format(optimizer):
        return
    _demand(isinstance(saved, Mapping), key, "is no dict")
    state, groups = saved.get("state"), saved.get("param_groups")
    _demand(isinstance(state, Mapping), key, "has no state")
    _demand(type(groups) is list, key, "has no param_groups")
    for group in groups:
        _demand(isinstance(group, Mapping) and type(group.get("params")) is list, key, "has a group without params")
    numbers = [number for group in groups for number in group["params"]]
    _demand(set(map(type, numbers)) <= {int}, key, "numbers params oddly")
    known = set(numbers)
    beyond = [number for number in state if type(number) is int and number not in known]
    _demand(not beyond, key, f"has state of parameter {beyond[:1]}, which is in no group")
    ours = [id(each) for each in parameters(optimizer)]  # one that a group was given twice has one number
    if len(numbers) == len(ours) and len(known) != len(set(ours)):
        raise Refusal(
            f"The checkpoint's {key} has {len(known)} different parameters in its groups, this program's "
            f"{len(set(ours))}. Nothing was changed. Give it the parameters as they were given when the checkpoint was "
            "made."
        )
    for number, (there, here) in enumerate(zip(groups, optimizer.param_groups, strict=False)):
        own = optimizer.defaults.keys() | _BY_SCHEDULERS
        _refuse_other_kinds(f"{key}, group {number}", {name: here[name] for name in here if name in own}, there)


def _is_of_torchs_format(optimizer: Optimizer | Stateful) -> TypeGuard[Optimizer]:
    from torch.optim import Optimizer as Base

    return (
        isinstance(optimizer, Base)
        and type(optimizer).state_dict is Base.state_dict
        and not any(vars(optimizer).get(name) for name in _HOOKS)
    )


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


def refuse_scheduler(key: str, scheduler: Stateful, saved: Any) -> None:
    """One of torch's. Raises Damaged and Refusal."""
    from torch.optim.lr_scheduler import LRScheduler

    if not isinstance(scheduler, LRScheduler) or not type(scheduler).__module__.startswith("torch.optim."):
        return
    _demand(isinstance(saved, Mapping), key, "is no dict")
    _demand(set(map(type, saved)) <= {str}, key, "has names that are no text")
    here = scheduler.state_dict()
    absent = [name for name in _ALWAYS if name in here and name not in saved]
    mine, theirs = ({name for name in each if name[:1] != "_" and name != "verbose"} for each in (here, saved))
    missing, unknown = sorted(mine - theirs), sorted(theirs - mine)
    if absent or (missing and unknown):
        has = f"it has {', '.join(unknown)} and " if unknown else "it has "
        raise Refusal(
            f"The checkpoint's {key} is of another kind: {has}no {', '.join(absent or missing)}. Nothing was changed. "
            "Give the session the kind that it was made with."
        )
    _refuse_other_kinds(key, here, saved)


def refuse_scaler(key: str, scaler: GradScaler, saved: Any) -> None:
    """Raises Damaged, and Refusal for what this one does not have."""
    _demand(isinstance(saved, Mapping), key, "is no dict")
    here = scaler.state_dict()
    if saved and (missing := sorted(here.keys() - saved.keys())):
        raise Refusal(f"The checkpoint's {key} has no {', '.join(missing)}. Nothing was changed.")
    _refuse_other_kinds(key, here, saved)


def _other_state(key: str, number: object, told: str) -> Refusal:
    return Refusal(
        f"The checkpoint's {key} has, as state of its parameter {number}, {told}: that is another "
        "optimizer's, or none. Nothing was changed. Give the session the optimizer that it was made with."
    )


def _refuse_other_kinds(what: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    for name in here.keys() & there.keys():
        ours, theirs = here[name], there[name]
        if type(ours) is list and type(theirs) is list and (name in _ONE_A_GROUP or not ours):
            ours, theirs = ours[: len(theirs)], theirs[: len(ours)]  # an empty one may be a history's beginning
        _refuse_another_kind(f"{what}, {name}", ours, theirs)


def _refuse_another_kind(what: str, here: Any, there: Any) -> None:
    """Numbers for numbers, as many of them; what is None or a switch here may be anything that is None or one."""
    ours, theirs = _kind(here), _kind(there)
    if here is None or not ours or not theirs or (theirs == "nothing" and ours == "a switch"):
        return
    counts = type(here) is type(there) is int
    if ours != theirs or (counts and (abs(there) >= _MOST or there < 0 <= here)):
        raise Refusal(
            f"The checkpoint's {what} is {there!r:.60}, and {here!r:.60} here: {theirs} for {ours}. Nothing was "
            "changed. Give the session the object that it was made with."
        )
    if isinstance(here, Mapping):
        missing = sorted(name for name in map(str, here.keys() - there.keys()) if name[:1] != "_")
        if missing:  # what begins with an underscore differs between versions of torch
            raise Refusal(f"The checkpoint's {what} has no {', '.join(missing)}. Nothing was changed.")
        _refuse_other_kinds(what, here, there)
    elif isinstance(here, (list, tuple)):
        for number, pair in enumerate(zip(cast("list[Any]", here), there, strict=True)):
            _refuse_another_kind(f"{what}, {number}", *pair)


def _kind(value: Any) -> str:
    """In words; empty for what may stand for anything."""
    if hasattr(value, "shape"):
        return "a number" if tuple(value.shape) in {(), (1,)} else "many numbers"
    match value:
        case None:
            return "nothing"
        case bool():
            return "a switch"
        case int() | float():
            return "a number"
        case list() | tuple():
            return f"a list of {len(cast('list[Any]', value))}"
        case _:
            return "text" if isinstance(value, str) else "a dict" if isinstance(value, Mapping) else ""


def _is_number(value: Any) -> bool:
    return type(value) in {int, float, bool}


def _is_tensor(value: Any) -> bool:
    return value is UNREAD or (type(value) is Place and value.kind == "tensor")


def _demand(sound: bool, what: str, told: str) -> None:
    if not sound:
        raise Damaged(f"its bytes verify but its state makes no sense: {what} {told}")
