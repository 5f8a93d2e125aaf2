"""What a rehearsal found: its table, `build/rehearsal.json`, and which promises held."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from ops.rehearsal.attempts import Attempt
from ops.rehearsal.commands import console


@dataclass(frozen=True)
class Rehearsal:
    """Everything that one rehearsal measured."""

    provider: str
    """Which Pulumi provider ran: Google's, or the local cloud's own."""
    resources_created: int
    second_up_changes: int
    """Of `pulumi up --refresh` right after `pulumi up`."""
    attempts: list[Attempt]
    save_every: int
    """Steps between two periodic checkpoints."""
    steps: int
    final_weights: str
    """SHA-256 of the model's weights after the interrupted run."""
    uninterrupted_weights: str
    left_over: list[str]
    """What the local cloud still held after `pulumi destroy`."""
    wall_s: float

    def lost_steps(self, why: str) -> int | None:
        """Steps that had to be done again after attempts that ended by `why`; None if there was no such attempt."""
        lost = [attempt.steps_lost for attempt in self.attempts if attempt.why == why]
        return sum(lost) if lost else None

    @property
    def identical_to_uninterrupted(self) -> bool:
        return self.final_weights == self.uninterrupted_weights

    def broken_promises(self) -> Iterator[str]:
        """A sentence for each promise that did not hold."""
        if self.resources_created == 0:
            yield "`pulumi up` created nothing"
        if self.second_up_changes != 0:
            yield f"a second `pulumi up --refresh` changed {self.second_up_changes} resources; 0 was promised"
        expected = [("preempted", 143), ("killed", 137), ("finished", 0)]
        ended = [(attempt.why, attempt.exit_code) for attempt in self.attempts]
        if ended != expected:
            yield f"the attempts ended as {ended}; {expected} was promised"
        if self.lost_steps("preempted") != 0:
            yield f"{self.lost_steps('preempted')} steps were lost after SIGTERM; 0 was promised"
        after_kill = self.lost_steps("killed")
        if after_kill is None or not 0 <= after_kill < self.save_every:
            yield f"{after_kill} steps were lost after the kill; fewer than {self.save_every} was promised"
        if not self.attempts or self.attempts[-1].ended_at_step != self.steps:
            yield f"the last attempt did not reach step {self.steps}"
        if not self.identical_to_uninterrupted:
            ours, theirs = self.final_weights[:12], self.uninterrupted_weights[:12]
            yield f"the final weights {ours} differ from an uninterrupted run's {theirs}"
        if self.left_over:
            yield f"`pulumi destroy` left {', '.join(self.left_over)}"


def write(rehearsal: Rehearsal, path: Path) -> None:
    """Write the report as JSON, for machines."""
    document = {
        "provider": rehearsal.provider,
        "resources_created": rehearsal.resources_created,
        "second_up_changes": rehearsal.second_up_changes,
        "attempts": [asdict(attempt) for attempt in rehearsal.attempts],
        "lost_steps_after_sigterm": rehearsal.lost_steps("preempted"),
        "lost_steps_after_kill": rehearsal.lost_steps("killed"),
        "identical_to_uninterrupted": rehearsal.identical_to_uninterrupted,
        "destroyed": not rehearsal.left_over,
        "wall_s": round(rehearsal.wall_s, 1),
        "broken_promises": list(rehearsal.broken_promises()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


def show(rehearsal: Rehearsal) -> int:
    """Print the report, for people; return 0 if every promise held, else 1."""
    table = Table(title="attempts", title_justify="left")
    for column in ("attempt", "from step", "to step", "why", "exit code", "steps lost"):
        table.add_column(column, justify="left" if column == "why" else "right")
    for attempt in rehearsal.attempts:
        table.add_row(*(str(value) for value in asdict(attempt).values()))
    console.print()
    console.print(table)
    verdict = "identical to" if rehearsal.identical_to_uninterrupted else "DIFFERENT FROM"
    console.print(f"final weights {rehearsal.final_weights[:16]}: {verdict} an uninterrupted run's")
    console.print(f"provider {rehearsal.provider}; {rehearsal.resources_created} resources; {rehearsal.wall_s:.0f} s")
    broken = list(rehearsal.broken_promises())
    for promise in broken:
        console.print(f"[red]BROKEN:[/red] {promise}")
    console.print("[red]the rehearsal failed[/red]" if broken else "[green]every promise held[/green]")
    return 1 if broken else 0
