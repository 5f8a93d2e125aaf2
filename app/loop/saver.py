"""The saver thread: writes the snapshots it is given and, at a stop, decides what to save in the time that is left."""

from __future__ import annotations

import threading
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app import logs
from app.checkpoint import codec
from app.checkpoint.epochs import Superseded
from app.checkpoint.patience import PAUSES_S, TRIES
from app.contract import ExitCode, Reason, TryAgain

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from app.checkpoint.codec import Encoded
    from app.checkpoint.line import Line
    from app.checkpoint.writer import Origin
    from app.clock import Clock
    from app.ledger import Ledger
    from app.loop.gate import Gate
    from app.loop.program import Boundary
    from app.shutdown import Shutdown


class SaveFailed(TryAgain):
    """A save that the task cannot end without did not succeed."""


STOP_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0)
"""Between tries of the save at a stop, as long as another one fits."""
SETTLE_S = 0.05
"""A parameter's version rises when the operation that writes it ends: one under way must get there to be seen."""


class Moved(Exception):  # noqa: N818
    """Parameters changed past the gate while the last boundary was saved."""


@dataclass
class Statistics:
    """What saves cost so far."""

    durable_step: int
    """Newest step known to be durable; before the first save, the step that the attempt started from."""
    failures_in_a_row: int = 0
    failures: int = 0
    seconds: float = 0.0
    """How long the last save took."""


@dataclass
class Saver:
    """One thread that owns the line. `submit` waits for the save before, so at most one snapshot is in memory."""

    line: Line
    ledger: Ledger
    origin: Origin
    gate: Gate[Boundary]
    shutdown: Shutdown
    state_of: Callable[[Boundary], dict[str, Any]]
    statistics: Statistics
    last_step: Callable[[], int]
    """The step the program is in, for the ledger."""
    clock: Clock
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _job: tuple[int, Encoded] | None = None
    _error: Exception | None = None
    _stop: bool = False
    _closing: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="saver", daemon=True)
        self._thread.start()

    def submit(self, step: int, snapshot: Encoded) -> None:
        """Write this in the background. A failure is logged and counted; `statistics` shows it."""
        with self._changed:
            self._changed.wait_for(self._idle)
            self._job = (step, snapshot)
            self._changed.notify_all()

    def wait(self) -> None:
        """Until nothing is being written."""
        with self._changed:
            self._changed.wait_for(self._idle)

    def save_now(self, step: int, snapshot: Encoded) -> None:
        """Write this and wait until it is durable; a few tries. Raises SaveFailed."""
        for pause_s in (*PAUSES_S, None):
            self.submit(step, snapshot)
            self.wait()
            if self.statistics.durable_step == step:
                return
            if pause_s is not None:
                self.clock.sleep(pause_s)
        raise SaveFailed(
            f"Step {step} could not be saved in {TRIES} tries: {self._error}. The last durable checkpoint is "
            f"step {self.statistics.durable_step}; a retry resumes from it."
        ) from self._error

    def on_stop(self) -> None:
        """From the stop watcher: freeze what may be saved, then decide in the saver thread."""
        self.gate.close()
        with self._changed:
            self._stop = True
            self._changed.notify_all()

    def wait_for_stop(self) -> None:
        """Until a stop was dealt with, as far as it could be: usually the saver ends the process before."""
        with self._changed:
            self._changed.wait_for(lambda: not self._stop)

    def close(self) -> None:
        """Finish what is being written and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread:
            self._thread.join()

    def _idle(self) -> bool:
        return self._job is None

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._job is not None or self._stop or self._closing)
                job, stop, closing = self._job, self._stop, self._closing
            if job:
                self._write(*job)
                with self._changed:
                    self._job = None
                    self._changed.notify_all()
            elif stop:
                self._save_for_stop()
                with self._changed:
                    self._stop = False
                    self._changed.notify_all()
            elif closing:
                return

    def failed(self, step: int, error: Exception) -> None:
        """Tell and count a save that failed; the schedule tries another."""
        statistics, self._error = self.statistics, error
        statistics.failures += 1
        statistics.failures_in_a_row += 1
        detail = str(error) if isinstance(error, OSError) else "".join(traceback.format_exception(error)).rstrip()
        logs.error(
            f"Saving step {step} failed ({detail}); that is failure {statistics.failures}. The last durable checkpoint "
            f"is step {statistics.durable_step}, and the save is tried again.",
            step=step,
        )

    def _write(self, step: int, snapshot: Encoded, before_publish: Callable[[], None] = lambda: None) -> None:
        """Raises what `before_publish` does when that is Moved."""
        statistics, began = self.statistics, self.clock.now_s()
        try:
            name = self.line.commit(step, snapshot, self.origin, before_publish)
        except Moved:
            raise
        except Superseded as superseded:
            logs.error(str(superseded))
            self.shutdown.leave(superseded.exit_code, superseded.reason)
        except Exception as error:
            self.failed(step, error)
            return
        self._error = None
        statistics.failures_in_a_row = 0
        statistics.durable_step = step
        statistics.seconds = self.clock.now_s() - began
        self.ledger.durable(step, max(step, self.last_step()))
        logs.info(
            f"Checkpoint {name} is durable: {snapshot.size_bytes / 1e6:.1f} MB in {statistics.seconds:.2f} s.",
            step=step,
            save_s=round(statistics.seconds, 3),
            save_bytes=snapshot.size_bytes,
        )

    def _save_for_stop(self) -> None:
        """CLEAN: save the last boundary. DIRTY: wait for the next while a save fits. Else: trust the last.

        A save that fails is tried again while another one fits. Returns only if the training thread makes the last one.
        """
        for pause_s in (*STOP_PAUSES_S, None):
            boundary = self._boundary_for_stop()
            while boundary is not None and not self._save_boundary(boundary):
                boundary = self._boundary_for_stop()
            if boundary is None or self.statistics.durable_step >= boundary.step:
                break
            if pause_s is not None:
                self.clock.sleep(pause_s)
        if not self.gate.work_is_over:
            self.shutdown.leave(ExitCode.STOPPED, Reason.STOPPED)

    def _boundary_for_stop(self) -> Boundary | None:
        """What to save now, or None: then the log says why, unless the work is over."""
        estimate = self.statistics.seconds
        boundary = self.gate.settled(self.shutdown.remaining_s() - estimate)
        durable, left = self.statistics.durable_step, self.shutdown.remaining_s()
        if boundary is None:
            if not self.gate.work_is_over:
                logs.warning(
                    "No step boundary came within the grace period; trusting the last durable checkpoint, step "
                    f"{durable}."
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
                f"A save takes {estimate:.1f} s and {left:.1f} s are left; trusting the last checkpoint, step "
                f"{durable}."
            )
            return None
        logs.info(
            "Saving checkpoint...",
            step=boundary.step,
            grace_left_s=round(left, 2),
            save_estimate_s=round(estimate, 2),
        )
        return boundary

    def _save_boundary(self, boundary: Boundary) -> bool:
        """False if the boundary was no longer there to be saved; another one then comes."""

        def is_still_there() -> None:
            if not self.gate.is_holding:
                self.clock.sleep(SETTLE_S)
            if not self.gate.confirm(boundary):
                raise Moved

        try:
            self._write(boundary.step, codec.encode(self.state_of(boundary)), is_still_there)
        except Moved:
            logs.warning(
                f"Parameters changed past the optimizer while step {boundary.step} was saved, so that save is given "
                "up; the next step boundary is saved instead."
            )
            return False
        except Exception as error:
            self.failed(boundary.step, error)
        return True
