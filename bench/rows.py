"""One line of the result: ours against a reference, the ratio that matters, and whether it is within its bar."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Row:
    """Less is better in every row: `ratio` is ours / reference, and `bar` the largest ratio that holds."""

    name: str
    unit: str
    ours: float | None
    """Median, in `unit`; None where it was not measured, and then `reason` says why."""
    reference: float | None
    reference_name: str
    """The peer with its version, or the limit of the machine."""
    ratio: float | None
    """Median of the ratios of the pairs, which is steadier on a noisy machine than the ratio of the medians."""
    bar: float | None
    """None: a comparison, which nothing is promised about."""
    holds: bool | None
    """None for a comparison, and for a bar that could not be measured."""
    reason: str = ""
    pairs: int = 0
    ours_spread: tuple[float, float] | None = None
    """Lower and upper quartile, in `unit`."""
    reference_spread: tuple[float, float] | None = None


def compare(
    name: str,
    unit: str,
    ours: Sequence[float],
    reference: Sequence[float],
    reference_name: str,
    *,
    bar: float | None = None,
    reason: str = "",
) -> Row:
    """The row of paired samples: ours[i] and reference[i] were taken one right after the other."""
    ratios = [mine / theirs for mine, theirs in zip(ours, reference, strict=True) if theirs > 0]
    ratio = statistics.median(ratios) if ratios else None
    return Row(
        name=name,
        unit=unit,
        ours=statistics.median(ours),
        reference=statistics.median(reference),
        reference_name=reference_name,
        ratio=ratio,
        bar=bar,
        holds=None if bar is None or ratio is None else ratio <= bar,
        reason=reason,
        pairs=len(ours),
        ours_spread=quartiles(ours),
        reference_spread=quartiles(reference),
    )


def unmeasured(name: str, unit: str, reference_name: str, bar: float | None, reason: str) -> Row:
    """A bar that nothing can be said about yet. Never a guess."""
    return Row(name, unit, None, None, reference_name, None, bar, None, reason)


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) < 2:
        return samples[0], samples[0]
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, high


def missed(rows: Sequence[Row]) -> list[Row]:
    """Bars that were measured and do not hold."""
    return [row for row in rows if row.holds is False]
