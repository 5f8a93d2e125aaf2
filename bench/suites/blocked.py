"""How long one save keeps the training loop from its next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import peers, raw
from bench.plan import size_name
from bench.rows import Row, compare
from bench.training_rounds import NONE, OURS, Found, measure

if TYPE_CHECKING:
    from pathlib import Path

    from bench.plan import Plan

MEMCPY_BAR = 0.05
DCP_BAR = 0.05
STEPS = 4
"""A round: the save, and enough steps that a deferred copy meets an optimizer."""


def run(plan: Plan, directory: Path) -> list[Row]:
    peers.join_a_group_of_one(directory)
    found = measure(plan.blocked_bytes, STEPS, plan.blocked_rounds, 0.0, directory, snapshot="deferred")
    bars = {raw.MEMCPY: MEMCPY_BAR, peers.DCP_THREAD: DCP_BAR, peers.DCP_PROCESS: DCP_BAR}
    ours = blocked(found, OURS)
    name = f"loop blocked by one save of {size_name(plan.blocked_bytes)}, deferred"
    rows = [compare(name, "s", ours, found.memcpy_s, raw.MEMCPY, bar=bars[raw.MEMCPY])]
    for other in found.rounds:
        if other not in (*NONE, OURS):
            rows.append(compare(name, "s", ours, blocked(found, other), other, bar=bars.get(other)))
    return rows


def blocked(found: Found, name: str) -> list[float]:
    return [each.blocked_s for each in found.rounds[name]]
