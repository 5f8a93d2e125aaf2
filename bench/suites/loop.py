"""What a save every so many steps adds to the wall clock and to the CPU time of a training loop."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from bench import peers
from bench.plan import size_name
from bench.rows import Row, compare, quartiles
from bench.training_rounds import NONE, OURS, Found, Round, measure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.plan import Plan

BAR = 0.5
STEP_S = 0.1
QUIET = 0.1
"""Being inside the noise says something only while the noise is at most this part of a round."""


def run(plan: Plan, directory: Path) -> list[Row]:
    peers.join_a_group_of_one(directory)
    found = measure(plan.loop_bytes, plan.loop_steps, plan.loop_rounds, STEP_S, directory)
    title = f"with a save of {size_name(plan.loop_bytes)} every {plan.loop_steps} steps of {found.step_s * 1000:.0f} ms"
    others = [name for name in found.rounds if name not in (*NONE, OURS)]
    rows = [_against_the_best(f"extra wall time {title}", found, others)]
    for other in others:
        rows.append(_price_row(f"extra wall time {title}", "s", found, other, wall))
        rows.append(_price_row(f"extra CPU {title}", "CPU s", found, other, cpu))
    plain = [each.wall_s for each in found.rounds[NONE[0]]]
    rows.append(compare(f"wall time {title}", "s", [each.wall_s for each in found.rounds[OURS]], plain, NONE[0]))
    step = [found.step_s] * len(found.boundary_s)
    rows.append(compare("passing a boundary without a save", "s", found.boundary_s, step, "one step"))
    return rows


def wall(each: Round) -> float:
    return each.wall_s


def cpu(each: Round) -> float:
    return each.cpu_s


def _price_row(name: str, unit: str, found: Found, other: str, what: Callable[[Round], float]) -> Row:
    """The ratio is of the medians: single differences of noisy rounds may be zero or less."""
    ours, theirs = (found.price(who, what) for who in (OURS, other))
    mine, reference = statistics.median(ours), statistics.median(theirs)
    return Row(
        name=name,
        unit=unit,
        ours=mine,
        reference=reference,
        reference_name=other,
        ratio=mine / reference if reference > 0 else None,
        bar=None,
        holds=None,
        reason="" if reference > 0 else "the peer's price is within the noise",
        pairs=len(ours),
        ours_spread=quartiles(ours),
        reference_spread=quartiles(theirs),
    )


def _against_the_best(name: str, found: Found, others: list[str]) -> Row:
    best = min(others, key=lambda other: statistics.median(found.price(other, wall)))
    row = _price_row(name, "s", found, best, wall)
    plain = statistics.median(each.wall_s for each in found.rounds[NONE[0]])
    holds, reason = verdict(row.ours or 0.0, row.reference or 0.0, statistics.median(found.noise()), plain)
    return replace(row, reference_name=f"the best peer: {best}", bar=BAR, holds=holds, reason=reason)


def verdict(ours_s: float, best_s: float, noise_s: float, plain_s: float) -> tuple[bool | None, str]:
    """Whether our price is half the best peer's or inside the noise, all in seconds a round; None: cannot be told.

    noise_s: the median difference of two neighbouring rounds that saved nothing. plain_s: what such a round takes.
    """
    if noise_s > QUIET * plain_s:
        return None, f"rounds that saved nothing differ by {noise_s:.2f} s of {plain_s:.2f} s: too noisy to tell"
    if ours_s <= noise_s:
        return True, f"inside the noise of not saving, {noise_s:.3f} s"
    return best_s > 0 and ours_s <= BAR * best_s, f"outside the noise of not saving, {noise_s:.3f} s"
