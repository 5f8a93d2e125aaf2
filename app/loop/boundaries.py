"""What happens at each step boundary: capture, perhaps be held, hand off, or save."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import logs
from app.checkpoint import codec
from app.loop import handoff, memory, parts
from app.loop.interval import Schedule
from app.loop.snapshot import Mode, Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.loop.boundary import Boundary
    from app.loop.ending import Ending
    from app.loop.gate import Gate
    from app.loop.loan import Loan
    from app.loop.options import Options
    from app.loop.program import Program
    from app.loop.saver import Saver
    from app.shutdown import Shutdown
    from app.startup import Start


class Boundaries:
    """For the training thread."""

    def __init__(
        self,
        program: Program,
        options: Options,
        start: Start,
        *,
        gate: Gate[Boundary],
        saver: Saver,
        shutdown: Shutdown,
        ending: Ending,
        first: int,
    ) -> None:
        self._program = program
        self._gate = gate
        self._saver = saver
        self._shutdown = shutdown
        self._ending = ending
        self._timeout_s = start.task.timeout_s
        self._clock = start.clock
        self._first = first
        self._schedule = Schedule(options.interval, start.clock, first)
        self._snapshots = Snapshots(program, options.snapshot, on_mount=memory.is_mount(start.store))
        self._loan: Loan | None = None
        self._told_unsavable = False

    def pass_one(self, step: int, median_step_s: float) -> None:
        """Everything is at the boundary after `step` steps. Does not return once a stop holds the program there."""
        boundary = self._program.capture(step)
        if not self._is_savable(boundary):
            self._gate.pass_by()
            return
        self._gate.pass_boundary(boundary)
        if step == self._first:
            return
        saves = self._saver.statistics
        if handoff.is_due(
            elapsed_s=self._shutdown.elapsed_s(),
            timeout_s=self._timeout_s,
            step_s=median_step_s,
            save_s=saves.seconds,
        ):
            self._hand_off(boundary)
        due = self._schedule.due(step, save_cost_s=saves.seconds, failures_in_a_row=saves.failures_in_a_row)
        if due or saves.redo or self._lent_has_moved():
            self._save(boundary)

    def last(self, step: int) -> None:
        """Every step is done: make it durable. Raises SaveFailed."""
        boundary = self._program.capture(step)
        self._gate.finish()
        self._save_and_wait(boundary, self._saver.wait_for_stop)

    def at_risk(self, done: int) -> dict[str, float]:
        """For the log line of a step: what a kill would lose now."""
        saves = self._saver.statistics
        return {
            "at_risk_steps": done - saves.durable_step,
            "at_risk_s": round(self._clock.now_s() - saves.durable_at_s, 1),
        }

    def _is_savable(self, boundary: Boundary) -> bool:
        """The first boundary always: a stop then has nothing to save."""
        unsavable = self._program.unsavable_gradients(boundary)
        if unsavable and not self._told_unsavable:
            self._told_unsavable = True
            logs.warning(
                f"No optimizer has used the sparse gradient of {unsavable[0]}, and a checkpoint has no form for it. "
                "Step boundaries at which there is one are not saved."
            )
        return not unsavable or boundary.step == self._first

    def _lent_has_moved(self) -> bool:
        """This thread took the loan back and knows before the saver does that its save will not be announced."""
        return self._loan is not None and self._loan.moved_at_return

    def _save(self, boundary: Boundary) -> None:
        """Take a snapshot here and have it written in the background."""
        logs.info("Saving checkpoint...", step=boundary.step)
        began = self._clock.now_s()
        self._saver.wait()
        self._loan = None
        self._saver.statistics.redo = False  # before the saver has the next one, which may ask for it again
        interval_s = began - self._schedule.last_at_s
        try:
            snapshot = self._snapshots.take(boundary, interval_s)
        except codec.Unsavable:
            raise
        except Exception as error:  # no memory for a copy just now is no reason to end
            self._saver.commits.failed(boundary.step, error)
        else:
            self._submit(boundary, snapshot, began)
        self._schedule.saving(boundary.step)

    def _submit(self, boundary: Boundary, snapshot: Snapshot, began_s: float) -> None:
        snapshot.taken_at_s = began_s
        self._loan = snapshot.loan
        if snapshot.loan is not None:
            self._gate.lend(snapshot.loan)
        snapshot.blocked_s = self._clock.now_s() - began_s
        if not self._saver.submit(snapshot):
            self._gate.give_back()
            self._gate.pass_boundary(boundary)  # a stop came: the saver wants this boundary, and nobody goes on
        if snapshot.holds:
            self._gate.take_back()

    def _hand_off(self, boundary: Boundary) -> None:
        logs.info(f"The task's timeout is near: saving step {boundary.step} and handing off to the next attempt.")
        self._save_and_wait(boundary, lambda: self._gate.pass_boundary(boundary))
        self._ending.hand_off()

    def _save_and_wait(self, boundary: Boundary, stopped: Callable[[], None]) -> None:
        saver = self._saver
        saver.wait()
        if saver.statistics.durable_step < boundary.step:
            logs.info("Saving checkpoint...", step=boundary.step)
            began = self._clock.now_s()
            saver.save_now(Snapshot(boundary.step, Mode.DIRECT, parts.encode(self._program, boundary), began), stopped)
