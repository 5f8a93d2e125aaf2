"""A model's state and its pending gradients. Names, shapes and dtypes are compared in app/loop/filling.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.checkpoint.table import Place
from app.contract import Refusal
from app.loop.fitting.sense import demand

if TYPE_CHECKING:
    from torch import nn


def refuse_model(key: str, values: Mapping[str, Any], saved: Any) -> None:
    """`values` are the model's tensors, and what else of its extra state has a dtype. Raises Damaged."""
    demand(isinstance(saved, Mapping), key, "is no dict")
    demand(set(map(type, saved)) <= {str}, key, "has names that are no text")
    arrays = [
        name
        for name, each in saved.items()
        if type(each) is Place and each.kind != "tensor" and hasattr(values.get(name), "numel")
    ]
    demand(not arrays, key, f"has an array as {arrays[:1]}")


def refuse_gradients(named: Mapping[str, nn.Parameter], saved: Mapping[str, Any]) -> None:
    """Raises Refusal."""
    for name, place in saved.items():
        if name in named and type(place) is Place and place.shape != tuple(named[name].shape):
            raise Refusal(
                f"The checkpoint's gradients of {name} are of shape {list(place.shape)}, the parameter is of "
                f"{list(named[name].shape)}. Nothing was changed."
            )
