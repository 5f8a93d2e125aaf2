"""The parts of a state that are no object's own, and how what makes no sense is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.checkpoint.manifest import Damaged
from app.checkpoint.skeleton import UNREAD
from app.checkpoint.table import Place

if TYPE_CHECKING:
    from torch import nn


def refuse_senseless(saved: Mapping[Any, Any], models: Mapping[str, nn.Module]) -> None:
    """Raises Damaged."""
    for key in saved:
        demand(type(key) is str, "its state", f"has the key {key!r}")
    for name in ("versions", "orders", "gradients"):
        demand(isinstance(saved.get(name, {}), Mapping), name, "is no dict")
    for key, told in saved.get("versions", {}).items():
        demand(isinstance(told, Mapping), f"versions of {key}", "are none")
        if odd := set(map(type, told.values())) - {int}:
            # Torch's own are numbers; a class of the program's may call its version as it likes.
            own = {type(getattr(module, "_version", 1)) for model in models.values() for module in model.modules()}
            demand(odd <= own, f"versions of {key}", "are none")
    for key, told in saved.get("orders", {}).items():
        demand(type(told) is list and set(map(type, told)) <= {str}, f"orders of {key}", "are none")
    for name, gradient in saved.get("gradients", {}).items():
        sound = _is_tensor(gradient) or (type(gradient) is int and gradient == 0)
        demand(sound, f"gradients of {name}", "are none")


def _is_tensor(value: Any) -> bool:
    return value is UNREAD or (type(value) is Place and value.kind == "tensor")


def demand(sound: bool, what: str, told: str) -> None:
    """Raises Damaged, which says that `what` is `told`, unless it is sound."""
    if not sound:
        raise Damaged(f"its bytes verify but its state makes no sense: {what} {told}")
