"""What is captured at a step boundary, because forward passes and user code change it at any time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from app.loop.accumulation import Mark


@dataclass(frozen=True)
class Boundary:
    """What was captured at a step boundary; owns its values."""

    step: int
    """Steps completed."""
    volatile: dict[str, Any]
    buffers: dict[str, dict[str, torch.Tensor]]
    """Model key -> buffer name -> copy."""
    groups: dict[str, list[dict[str, Any]]]
    """Optimizer key -> its parameter groups without the parameters."""
    marks: int
    """Of parameters and optimizer state (marks.py): another one says that something changed them past the gate."""
    pending: dict[str, Mark]
    """Parameter's name -> its gradient, where no optimizer has used it: part of the state."""
