"""A gradient scaler's state without waiting for the device: `GradScaler.state_dict()` would synchronise each step."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.amp.grad_scaler import GradScaler


def capture(scaler: GradScaler) -> dict[str, Any]:
    """As its state_dict(), but with clones of its two tensors in place of numbers."""
    scale, tracker = getattr(scaler, "_scale", None), getattr(scaler, "_growth_tracker", None)
    if scale is None or tracker is None:  # another class's, or not used yet
        return copy.deepcopy(scaler.state_dict())
    return {
        "scale": scale.clone(),
        "growth_factor": scaler.get_growth_factor(),
        "backoff_factor": scaler.get_backoff_factor(),
        "growth_interval": scaler.get_growth_interval(),
        "_growth_tracker": tracker.clone(),
    }


def restore(scaler: GradScaler, saved: dict[str, Any]) -> None:
    """The clones become numbers again."""
    scaler.load_state_dict({name: value.item() if hasattr(value, "item") else value for name, value in saved.items()})
