"""What the saver does when a stop comes: it decides by bytes and measured time what to save, and says so.

CLEAN: save the last boundary. DIRTY: wait for the next while a save fits. Else: trust the last durable checkpoint.
See gate.py for what the words mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import logs
from app.contract import ExitCode, Reason
from app.loop.loan import Moved
from app.loop.snapshot import Mode, Snapshot

if TYPE_CHECKING:
    from app.loop.boundary import Boundary
    from app.loop.saver import Saver

STOP_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0)
"""Between tries of the save at a stop, as long as another one fits."""
SETTLE_S = 0.05
"""A parameter's version rises when the operation that writes it ends: one under way must get there to be seen."""


def save_for_stop(saver: Saver) -> None:
    """A save that fails is tried again while another one fits. Returns only if the training thread makes the last."""
    for pause_s in (*STOP_PAUSES_S, None):
        boundary = _boundary_for_stop(saver)
        while boundary is not None and not _save_boundary(saver, boundary):
            boundary = _boundary_for_stop(saver)
        if boundary is None or saver.statistics.durable_step >= boundary.step:
            break
        if pause_s is not None:
            saver.clock.sleep(pause_s)
    if not saver.gate.work_is_over:
        saver.shutdown.leave(ExitCode.STOPPED, Reason.STOPPED)


def _boundary_for_stop(saver: Saver) -> Boundary | None:
    """What to save now, or None: then the log says why, unless the work is over."""
    estimate = saver.statistics.seconds
    boundary = saver.gate.settled(saver.shutdown.remaining_s() - estimate)
    durable, left = saver.statistics.durable_step, saver.shutdown.remaining_s()
    if boundary is None:
        if not saver.gate.work_is_over:
            logs.warning(
                f"No step boundary came within the grace period; trusting the last durable checkpoint, step {durable}.",
                event="given_up",
                step=durable,
            )
        return None
    if boundary.step <= durable:
        logs.info(
            f"Step {boundary.step} needs no saving: nothing was done since."
            if boundary.step
            else "Nothing to save yet."
        )
        return None
    if estimate > left:
        logs.warning(
            f"A save takes {estimate:.1f} s and {left:.1f} s are left; trusting the last checkpoint, step {durable}.",
            event="given_up",
            step=durable,
        )
        return None
    logs.info(
        "Saving checkpoint...",
        step=boundary.step,
        grace_left_s=round(left, 2),
        save_estimate_s=round(estimate, 2),
    )
    return boundary


def _save_boundary(saver: Saver, boundary: Boundary) -> bool:
    """False if the boundary was no longer there to be saved; another one then comes."""

    def is_still_there() -> None:
        if not saver.gate.is_holding:
            saver.clock.sleep(SETTLE_S)
        if not saver.gate.confirm(boundary):
            raise Moved

    try:
        saver.commits.commit(Snapshot(boundary.step, Mode.DIRECT, saver.encode(boundary)), is_still_there)
    except Moved:
        logs.warning(
            f"Parameters changed past the optimizer while step {boundary.step} was saved, so that save is given "
            "up; the next step boundary is saved instead."
        )
        return False
    except Exception as error:
        saver.commits.failed(boundary.step, error)
    return True
