"""What the user of a session chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.loop.interval import Interval


@dataclass(frozen=True)
class Options:
    total_steps: int
    """Over all attempts."""
    interval: Interval
    keep: int = 3
    """Verified checkpoints that stay."""
    log_every: int = 1
    """`Run.log` writes a line every so many steps."""
    identity: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else the state belongs to, besides the model's shape; a difference at resume is refused."""
    fork: bool = False
    """Resume in spite of another identity."""
