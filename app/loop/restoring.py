"""Putting a loaded state back exactly: what does not fit is refused by name, and nothing is cast on the way.

It happens in two moves. Before a byte is read, what the checkpoint says of its tensors is compared with the program's,
and the memory which the bytes may go straight into is named (filling.py). Afterwards each object loads its state: a
module meets its own tensors among the values, which costs nothing, and so its hooks and extra state have their say.
"""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from app.contract import Refusal, TaskError
from app.loop import module_versions, own_ways
from app.loop.accumulation import parameters

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Mapping

    import torch
    from torch import nn
    from torch.optim import Optimizer

    from app.loop.subjects import Stateful

NAMED = 8
"""So many differences are listed; the rest is counted."""
NOT_TO_START_FROM = (
    "The checkpoint was not changed, but the program's objects hold a part of it by now: nothing may start from them."
)
Form = tuple[str, tuple[int, ...]]
"""A tensor's dtype, as torch spells it without `torch.`, and shape."""


def form(tensor: torch.Tensor) -> Form:
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)


def refuse_another_model(
    key: str, here: Mapping[str, Form], there: Mapping[str, Form], may_grow: Container[str] = ()
) -> None:
    """Names, shapes and dtypes must agree: `load_state_dict` would cast silently. Raises Refusal.

    may_grow: those whose module may take another shape as it loads its state.
    """
    wrong = [f"{name} is missing in the checkpoint" for name in sorted(here.keys() - there.keys())]
    wrong += [f"{name} is only in the checkpoint" for name in sorted(there.keys() - here.keys())]
    for name in sorted(here.keys() & there.keys()):
        (ours, our_shape), (theirs, their_shape) = here[name], there[name]
        if ours != theirs or (our_shape != their_shape and name not in may_grow):
            wrong.append(f"{name} is torch.{theirs} {list(their_shape)} there, torch.{ours} {list(our_shape)} here")
    if wrong:
        more = f", and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        raise Refusal(f"The checkpoint is of another {key}: {'; '.join(wrong[:NAMED])}{more}. Nothing was changed.")


@contextmanager
def putting_back(key: str) -> Generator[None]:
    """Around the load_state_dict of one object: a state that it cannot take is refused, by what it said and where.

    Raises Refusal. Trouble that may pass (storage, memory, a device, an item of the data) is raised as it is.
    """
    try:
        yield
    except (TaskError, OSError, MemoryError):
        raise
    except Exception as error:
        if type(error).__name__ in _OF_THE_MACHINE or "allocat" in str(error):
            raise
        places = traceback.extract_tb(error.__traceback__)
        if any(_FETCHING in each.filename for each in places):
            raise
        place = places[-1]
        raise Refusal(
            f"The checkpoint's {key} does not fit: {error!r} (in {place.name}, {place.filename}, line {place.lineno}). "
            f"{NOT_TO_START_FROM} Give the session the object that it was made with, or mend its load_state_dict."
        ) from error


_OF_THE_MACHINE = {"OutOfMemoryError", "AcceleratorError"}
"""Errors of torch that say nothing of the state."""
_FETCHING = "/torch/utils/data/"
"""Where a position is found again by fetching what lies before it, what fails may be the dataset's network."""


def load_model(
    key: str,
    model: nn.Module,
    saved: dict[str, Any],
    versions: Mapping[str, Any] | None,
) -> None:
    """`versions` of its modules (module_versions.py); None: an older checkpoint, which did not tell.

    Raises Refusal, again: not every state that is loaded was compared before it was read.
    """
    here = {name: value for name, value in model.state_dict(keep_vars=True).items() if hasattr(value, "dtype")}
    there = {name: value for name, value in saved.items() if hasattr(value, "dtype")}
    ours, theirs = ({name: form(value) for name, value in each.items()} for each in (here, there))
    as_they_were = ours == theirs
    if not as_they_were:
        refuse_another_model(key, ours, theirs, own_ways.may_grow(here, own_ways.plainly_loaded(model)))
    own = {name: here[name] for name, value in there.items() if _is_memory_of(here[name], value)}
    found = {**saved, **own}  # a tensor copied onto itself is not copied
    model.load_state_dict(found if versions is None else module_versions.carried(model, found, versions))
    if as_they_were:
        return
    for name, value in model.state_dict(keep_vars=True).items():
        if name in theirs and form(value) != theirs[name]:
            raise Refusal(
                f"{name} of the {key} is of shape {list(theirs[name][1])} in the checkpoint and still of "
                f"{list(form(value)[1])} here when its module had loaded it. {NOT_TO_START_FROM} Give it that shape "
                "before the session begins, or in its _load_from_state_dict."
            )


def load_optimizer(key: str, optimizer: Optimizer | Stateful, saved: dict[str, Any]) -> None:
    """Raises Refusal. An optimizer that is not torch's gets its state as it is."""
    ours = hasattr(optimizer, "param_groups") and "state" in saved
    if not ours:
        optimizer.load_state_dict(saved)
        return
    optimizer = cast("Optimizer", optimizer)
    defaults = getattr(optimizer, "defaults", {})
    before = [  # what it or a scheduler reads; a text that the program put there has no say
        {name for name, value in group.items() if name in defaults or isinstance(value, (int, float))}
        for group in optimizer.param_groups
    ]
    optimizer.load_state_dict(_spared_a_cast(optimizer, saved))
    for number, (had, group) in enumerate(zip(before, optimizer.param_groups, strict=False)):
        if lost := sorted(had - group.keys()):  # a newer version of torch fills in what it added, and nothing else
            raise Refusal(f"The checkpoint's {key} has no {', '.join(lost)} in its group {number}. {NOT_TO_START_FROM}")
    # load_state_dict casts to the parameter's dtype: an fp32 moment of a bf16 parameter would lose bits.
    for index, parameter in numbered(optimizer, saved).items():
        if index in saved["state"]:
            optimizer.state[parameter] = _exact(optimizer.state[parameter], saved["state"][index])


def numbered(optimizer: Optimizer, saved: dict[str, Any]) -> dict[Any, nn.Parameter]:
    """Parameters by the numbers that `saved` has for them. Raises ValueError when there are more or fewer."""
    indices = [index for group in saved["param_groups"] for index in group["params"]]
    return dict(zip(indices, parameters(optimizer), strict=True))


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


def _is_memory_of(ours: torch.Tensor, loaded: torch.Tensor) -> bool:
    import torch

    if type(ours) not in {torch.Tensor, torch.nn.Parameter} or type(loaded) is not torch.Tensor:
        return False
    same = ours.device == loaded.device and ours.data_ptr() == loaded.data_ptr() and ours.stride() == loaded.stride()
    return same and ours.data_ptr() != 0


def _spared_a_cast(optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """`saved` with little in place of the tensors whose cast would be thrown away, where nobody looks at them."""
    import torch
    from torch.optim import Optimizer as Base

    hooks = ("_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks")
    if type(optimizer).load_state_dict is not Base.load_state_dict or any(vars(optimizer).get(name) for name in hooks):
        return saved
    try:
        owners = numbered(optimizer, saved)
    except ValueError:
        return saved  # which load_state_dict refuses

    def spared(value: Any, parameter: torch.Tensor) -> Any:
        return value.new_empty(0) if type(value) is torch.Tensor and value.dtype != parameter.dtype else value

    state = {
        index: {name: value if name == "step" else spared(value, owners[index]) for name, value in values.items()}
        if index in owners and isinstance(values, dict)
        else values
        for index, values in saved["state"].items()
    }
    return {**saved, "state": state}


def _exact(loaded: Any, saved: Any) -> Any:
    """`loaded` with every tensor that was cast or spared replaced by the saved one, on the device of the others."""
    if hasattr(saved, "dtype") and hasattr(loaded, "dtype"):
        same = loaded.dtype == saved.dtype and loaded.shape == saved.shape
        return loaded if same else saved.to(loaded.device)
    if isinstance(saved, dict):
        return {name: _exact(loaded[name], value) for name, value in cast("dict[Any, Any]", saved).items()}
    if isinstance(saved, (list, tuple)):
        pairs = zip(loaded, cast("list[Any]", saved), strict=True)
        return type(saved)(_exact(ours, theirs) for ours, theirs in pairs)
    return loaded
