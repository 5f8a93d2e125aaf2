"""How a session ends: with its work complete, left before, or stopped; and what then stands on the line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from app import logs, provenance, startup
from app.checkpoint.storage.patience import patiently
from app.clock import now_rfc3339
from app.contract import ExitCode, Reason, TaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from app.checkpoint.line import Line
    from app.shutdown import Shutdown
    from app.startup import Start


@dataclass(frozen=True)
class Ending:
    start: Start
    line: Line
    shutdown: Shutdown
    identity: dict[str, Any]
    total_steps: int
    last_step: Callable[[], int]
    """The step the program is in."""

    def is_yet_to_come(self) -> None:
        """A session begins: one before it in this attempt, complete, was not the end."""
        self.shutdown.on_stop = None
        ledger = self.start.ledger
        if ledger.record.reason is Reason.FINISHED:
            ledger.record = replace(ledger.record, ended_at=None, exit_code=None, reason=None)

    def was_early(self, step: int) -> bool:
        """Whether the line says that the work, of as many steps as are asked for now, was complete at `step`."""
        if step == 0:
            return False
        done = startup.finished_as_read(self.start.store, self.total_steps, self.start.clock)
        return done is not None and done["step"] == step

    def in_ledger(self, code: int, reason: Reason) -> None:
        """The first end that is told counts."""
        self.start.ledger.end(code, reason, self.last_step())

    def complete(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Every step is durable: mark the work as complete. After a stop the process then leaves with 0.

        Raises StoreUnavailable, Refusal: a retry finds nothing left to do but this mark.
        """
        step, digest = self.last_step(), provenance.weights_sha256(weights)
        document = {
            "format": 1,
            "step": step,
            "total_steps": self.total_steps,
            "weights_sha256": digest,
            "epoch": self.start.ledger.attempt.epoch,
            "execution": self.start.task.execution,
            "finished_at": now_rfc3339(),
            "identity": self.identity,
        }
        try:
            patiently(lambda: self.line.finish(document), "Marking the work as complete", sleep=self.start.clock.sleep)
        except TaskError as error:
            self.in_ledger(error.exit_code, error.reason)
            raise
        self.shutdown.on_stop = self.leave_finished
        self.in_ledger(ExitCode.DONE, Reason.FINISHED)
        logs.info(f"Finished at step {step}; weights sha256 {digest}.", step=step, weights_sha256=digest)
        if self.shutdown.noticed.is_set():
            self.leave_finished()  # complete in spite of the stop: what follows the session would be cut short

    def left_early(self) -> None:
        logs.warning(
            f"The loop was left after step {self.last_step()} of {self.total_steps}; the work is not marked as "
            "complete. If it is, say so with run.finish_early() instead of leaving the loop."
        )

    def leave_stopped(self) -> NoReturn:
        self.shutdown.leave(ExitCode.STOPPED, Reason.STOPPED)

    def leave_finished(self) -> NoReturn:
        self.shutdown.leave(ExitCode.DONE, Reason.FINISHED)

    def hand_off(self) -> NoReturn:
        self.shutdown.leave(ExitCode.HANDED_OFF, Reason.HANDED_OFF)
