"""Time: as documents spell it, and as an attempt lives through it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Clock:
    """What an attempt measures and waits by; replaced in tests."""

    now_s: Callable[[], float] = time.monotonic
    """Seconds since some fixed instant."""
    sleep: Callable[[float], None] = time.sleep
    """Wait so many seconds."""


REAL = Clock()


def now_rfc3339() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
