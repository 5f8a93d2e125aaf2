"""When the next periodic save is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

OVERHEAD = 0.01
"""Share of the time that saving may take when the interval is automatic."""
SHORTEST_S = 10.0


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
