"""Rows as text: the bars first, then the comparisons, one block a measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.rows import Row

HEAD = ("what", "ours", "reference", "", "ratio", "bar", "holds")
_SCALES = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")), "CPU s": ((1.0, "CPU s"), (1e-3, "CPU ms"))}


def render(rows: Sequence[Row], *, markdown: bool = False) -> str:
    """A table for the terminal, or one in Markdown."""
    ordered = [row for row in rows if row.bar is not None] + [row for row in rows if row.bar is None]
    lines = [HEAD, *(_cells(row) for row in ordered)]
    if markdown:
        rule = "|".join(["---"] * len(HEAD))
        head, *body = (f"| {' | '.join(cells)} |" for cells in lines)
        return "\n".join([head, f"|{rule}|", *body])
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    verdict = {True: "yes", False: "NO", None: "-" if row.bar is None else "not measured"}[row.holds]
    reason = f" ({row.reason})" if row.reason and row.bar is not None else ""
    return (
        row.name,
        amount(row.ours, row.unit),
        amount(row.reference, row.unit),
        row.reference_name,
        "-" if row.ratio is None else f"{row.ratio:.3g}",
        "-" if row.bar is None else f"{row.bar:g}",
        verdict + reason,
    )


def amount(value: float | None, unit: str) -> str:
    """`12.3 ms`: three digits in the unit that suits the number."""
    if value is None:
        return "-"
    scales = _SCALES.get(unit, ((1.0, unit),))
    factor, name = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    return f"{value / factor:.3g} {name}" if abs(value / factor) < 999.5 else f"{value / factor:.0f} {name}"
