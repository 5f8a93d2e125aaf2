"""Which parameters are one under several names. It must be the same on both sides: else they part, or overwrite."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from app.checkpoint.table import Place
from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch


def refuse_other(values: Mapping[str, Mapping[str, torch.Tensor]], saved: Mapping[str, Any]) -> None:
    """`values` are the models' tensors by key and name, `saved` the checkpoint's state before it is read.

    Raises Refusal, naming two parameters that are one on one side only. Buffers are saved under each of their names, so
    a checkpoint does not tell whether they were one, and nor does it of what has no values.
    """
    import torch

    names, ours, theirs = list[str](), list[torch.Tensor](), list[Any]()
    for key, named in values.items():
        for name, value in named.items():
            place = saved[key].get(name)
            if type(value) is torch.nn.Parameter and type(place) is Place and value.numel():
                names.append(f"{key}.{name}")
                ours.append(value)
                theirs.append(id(place))
    if len(set(theirs)) == len(names) == len({value.data_ptr() for value in ours}):
        return  # none is tied
    here = _firsts([_memory(value) for value in ours])
    there = _firsts(theirs)
    for number, name in enumerate(names):
        if here[number] == there[number]:
            continue
        one_there = there[number] != number
        other = names[there[number] if one_there else here[number]]
        told = "one parameter in the checkpoint and two here" if one_there else "two in the checkpoint and one here"
        raise Refusal(
            f"{other} and {name} are {told}. Tied parameters stay tied, so nothing was changed. "
            + ("Tie" if one_there else "Untie")
            + " them before the session begins, as they were when the checkpoint was made."
        )


def _firsts(values: Sequence[Hashable]) -> list[int]:
    """For each the number of the first that is equal."""
    first = dict[Hashable, int]()
    return [first.setdefault(value, number) for number, value in enumerate(values)]


def _memory(value: torch.Tensor) -> Hashable:
    """Equal for views of the same memory that are saved as one."""
    if not value.data_ptr():
        return id(value)
    return value.device, value.data_ptr(), value.dtype, value.shape, value.stride()
