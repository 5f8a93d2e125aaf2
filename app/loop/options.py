"""What the user of a session chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.loop.snapshot import Mode

if TYPE_CHECKING:
    from app.loop.interval import Interval


@dataclass(frozen=True)
class Options:
    total_steps: int
    """Over all attempts."""
    interval: Interval
    keep: int = 3
    """Verified checkpoints that stay."""
    keep_every: int | None = None
    """Checkpoints of every so many steps stay for good."""
    snapshot: Mode = Mode.AUTO
    """How the state is copied for a periodic save."""
    log_every: int = 1
    """`Run.log` writes a line every so many steps."""
    identity: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else the state belongs to, besides the model's shape; a difference at resume is refused."""
    fork: bool = False
    """Resume in spite of another identity."""
