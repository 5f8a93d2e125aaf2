"""When the next periodic save is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from app.clock import Clock

OVERHEAD = 0.01
"""Share of the time that saving may take when the interval is automatic."""
SHORTEST_S = 10.0
FIRST_AGAIN_S = 1.0
LAST_AGAIN_S = 60.0
"""A failed save is tried again at the first boundary so much later, twice as long after each further failure."""


class Interval(Protocol):
    def due(self, steps_since: int, seconds_since: float, save_cost_s: float) -> bool:
        """Whether to save now, so many steps and seconds after the last save, which took `save_cost_s`."""
        ...


@dataclass(frozen=True)
class EverySteps:
    steps: int

    def due(self, steps_since: int, seconds_since: float, save_cost_s: float) -> bool:  # noqa: ARG002
        return steps_since >= self.steps


@dataclass(frozen=True)
class AtRisk:
    """As often as the overhead budget allows, but never more than `minutes` of work at risk."""

    minutes: float = 5.0

    def due(self, steps_since: int, seconds_since: float, save_cost_s: float) -> bool:
        wanted = min(max(save_cost_s / OVERHEAD, SHORTEST_S), self.minutes * 60)
        return steps_since > 0 and seconds_since >= wanted


class Schedule:
    """Asked at each boundary: by the interval, or after a failed save by pauses of 1, 2, 4 ... 60 seconds."""

    def __init__(self, interval: Interval, clock: Clock, step: int) -> None:
        self._interval = interval
        self._clock = clock
        self._again_at_s: float | None = None
        self._last_step, self.last_at_s = step, clock.now_s()

    def due(self, step: int, *, save_cost_s: float, failures_in_a_row: int) -> bool:
        now_s = self._clock.now_s()
        if failures_in_a_row:
            if self._again_at_s is None:
                self._again_at_s = now_s + min(FIRST_AGAIN_S * 2.0 ** (failures_in_a_row - 1), LAST_AGAIN_S)
            return now_s >= self._again_at_s
        return self._interval.due(step - self._last_step, now_s - self.last_at_s, save_cost_s)

    def saving(self, step: int) -> None:
        """A save of this step was begun."""
        self._last_step, self.last_at_s = step, self._clock.now_s()
        self._again_at_s = None
