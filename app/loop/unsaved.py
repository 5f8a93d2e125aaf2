"""What of a program no checkpoint would hold: refused or told of before it has cost a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app import logs
from app.checkpoint import codec
from app.contract import Refusal
from app.loop import parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.loop.program import Program


def refuse_what_cannot_be(program: Program, step: int) -> None:
    """Raises Refusal for a value that the format has no form for."""
    try:
        parts.encode(program, program.capture(step))
    except codec.Unsavable as error:
        raise Refusal(f"No checkpoint could be made of this program. {error}. Nothing was written.") from error


def tell_of_parameters(program: Program) -> None:
    """That an optimizer updates and no model of the session has."""
    if lost := program.unsaved_parameters():
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        logs.warning(
            f"The optimizer updates {lost[0]}{more}, of which no model given to the session knows. They are not "
            "saved, and begin anew when the run is resumed. Make them parameters of a model, or give the model "
            "they belong to as well: model={...}."
        )


def tell_of_data_drawn_before(program: Program, began_at: Mapping[str, Any]) -> None:
    """`began_at`: where the session's data stood when it began; now it is at its first step."""
    now = program.positions()
    moved = [key for key, before in began_at.items() if _differs(before, now.get(key))]
    if moved:
        logs.warning(
            f"{moved[0]}= has moved between the beginning of the session and its first step, as it does in "
            "zip(batches, run.steps()) or with a batch that is fetched ahead. What was fetched and not yet used is "
            "not saved, so a resumed run would train on other batches. Fetch each step's data in its body: "
            "next(batches)."
        )


def _differs(before: Any, now: Any) -> bool:
    """Of positions that can be compared: one with tensors in it cannot."""
    try:
        return bool(before != now)
    except (RuntimeError, ValueError, TypeError):
        return False
