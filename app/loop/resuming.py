"""A program gets the state of the line's newest checkpoint that verifies and is its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app import logs, provenance
from app.loop.identity import naming, refuse_another

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from app.checkpoint.line import Line
    from app.checkpoint.manifest import Head
    from app.checkpoint.table import Table
    from app.loop.program import Program
    from app.startup import Start


@dataclass(frozen=True)
class Resumed:
    name: str
    """The checkpoint's."""
    step: int
    """Steps complete."""
    generators: dict[str, Any]
    """Random states, to be set at the first boundary: until then anything may draw from them (rng.py)."""


def resume(program: Program, line: Line, start: Start, identity: Mapping[str, Any], *, fork: bool) -> Resumed | None:
    """None on a line without checkpoints. Raises Refusal, TryAgain (app/checkpoint/resume.py)."""

    def into(head: Head, table: Table) -> Mapping[str, torch.Tensor]:
        """Identity first: a checkpoint of something else has other tensors as well."""
        refuse_another(head.name, head.identity, identity, fork=fork)
        with naming(head.name):
            return program.filled_from(table)

    loaded = line.resume(ever_committed=start.ever_committed, into=into, ahead=start.ahead)
    if start.ahead is not None:
        start.ahead.drop()
    if loaded is None:
        return None
    name, step = str(loaded.name), loaded.head.step
    with naming(name):
        program.restore(loaded.state)
    start.ledger.resumed(name, step)
    lost = {} if start.left_at_step is None else {"lost_steps": max(0, start.left_at_step - step)}
    logs.info(f"Resuming from checkpointed step {step}.", step=step, checkpoint=name, **lost)
    provenance.tell_differences(loaded.head.environment)
    return Resumed(name, step, loaded.state["rng"])
