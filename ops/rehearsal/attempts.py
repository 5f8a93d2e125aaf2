"""What became of each attempt, put together from the three witnesses: the platform, the logs and the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Attempt:
    """One attempt of a task, as the report shows it."""

    attempt: int
    """The platform's number, 0 first."""
    started_at_step: int
    ended_at_step: int
    """The last step that its log shows complete."""
    why: str
    """How the platform ended it: finished, failed, preempted, killed, timeout, cancelled, memory."""
    exit_code: int | None
    """128 + signal where a signal ended the process."""
    steps_lost: int
    """Steps that the next attempt had to do again."""


def attempts_of(
    platform: Sequence[dict[str, Any]], last_steps: dict[int, int], resumed_from: dict[int, int | None]
) -> list[Attempt]:
    """Join the witnesses on the platform's attempt number.

    Args:
        platform: the executor's record of each attempt: attempt, exit_code, signal, why.
        last_steps: attempt -> the highest step in its log.
        resumed_from: attempt -> the step its ledger says it resumed from, None for a fresh start.
    """
    started = {entry["attempt"]: resumed_from.get(entry["attempt"]) or 0 for entry in platform}
    attempts: list[Attempt] = []
    for entry in platform:
        number = int(entry["attempt"])
        ended = last_steps.get(number, started[number])
        resumed_next = started.get(number + 1, ended)
        signal = entry.get("signal")
        attempts.append(
            Attempt(
                attempt=number,
                started_at_step=started[number],
                ended_at_step=ended,
                why=str(entry["why"]),
                exit_code=128 + int(signal) if signal else entry.get("exit_code"),
                steps_lost=max(0, ended - resumed_next),
            )
        )
    return attempts
