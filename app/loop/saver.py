"""The saver thread: writes the snapshots it is given and, at a stop, decides what to save in the time that is left."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app import logs
from app.checkpoint.storage.patience import PAUSES_S, TRIES
from app.contract import TryAgain
from app.loop.loan import Moved
from app.loop.stopping import SETTLE_S, save_for_stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.checkpoint.codec import Encoded
    from app.clock import Clock
    from app.loop.boundary import Boundary
    from app.loop.commits import Commits, Statistics
    from app.loop.gate import Gate
    from app.loop.loan import Loan
    from app.loop.snapshot import Snapshot
    from app.shutdown import Shutdown


class SaveFailed(TryAgain):
    """A save that the task cannot end without did not succeed."""


COME_BY_S = 10.0
"""So long is the training thread waited for, to say itself that what it lent is unchanged."""


@dataclass
class Saver:
    """One thread that owns the line. `submit` waits for the save before, so at most one snapshot is in memory."""

    commits: Commits
    gate: Gate[Boundary]
    shutdown: Shutdown
    encode: Callable[[Boundary], Encoded]
    """The whole state at a boundary, its tensors the live ones."""
    on_moved: Callable[[], None]
    """Tensors changed while they were lent: it must not be done again."""
    clock: Clock
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _job: Snapshot | None = None
    _stop: bool = False
    _closing: bool = False
    _thread: threading.Thread | None = None

    @property
    def statistics(self) -> Statistics:
        return self.commits.statistics

    def start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="saver", daemon=True)
        self._thread.start()

    def submit(self, snapshot: Snapshot) -> bool:
        """Write this in the background. A failure is logged and counted; `statistics` shows it.

        False once a stop was asked for: then nothing is written but what the gate says is to be saved.
        """
        with self._changed:
            self._changed.wait_for(self._idle)
            if self._stop:
                return False
            self._job = snapshot
            self._changed.notify_all()
            return True

    def wait(self) -> None:
        """Until nothing is being written. The training thread takes back first what it lent."""
        with self._changed:
            self._changed.wait_for(self._idle)

    def save_now(self, snapshot: Snapshot, stopped: Callable[[], None]) -> None:
        """Write this and wait until it is durable; a few tries. Raises SaveFailed.

        `stopped` is called while a stop keeps the saver from it: what returns from there is tried again.
        """
        for pause_s in (*PAUSES_S, None):
            while not self.submit(snapshot):
                stopped()
            self.wait()
            if self.statistics.durable_step == snapshot.step:
                return
            if pause_s is not None:
                self.clock.sleep(pause_s)
        raise SaveFailed(
            f"Step {snapshot.step} could not be saved in {TRIES} tries: {self.commits.error}. The last durable "
            f"checkpoint is step {self.statistics.durable_step}; a retry resumes from it."
        ) from self.commits.error

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
                self._save(job)
                with self._changed:
                    self._job = None
                    self._changed.notify_all()
            elif stop:
                save_for_stop(self)
                with self._changed:
                    self._stop = False
                    self._changed.notify_all()
            elif closing:
                return
            job = None  # the next snapshot needs its memory

    def _save(self, snapshot: Snapshot) -> None:
        loan = snapshot.loan
        try:
            if loan is None:
                snapshot.arrived()
                self.commits.commit(snapshot)
                return
            loan.copy()
            if loan.is_copied:
                self.gate.give_back()
                loan.compare()
            snapshot.arrived()
            self.commits.commit(snapshot, lambda: self._prove(loan))
        except Moved as moved:
            self._moved(snapshot.step, moved)
        except Exception as error:
            self.commits.failed(snapshot.step, error)
        finally:
            self.gate.give_back()

    def _prove(self, loan: Loan) -> None:
        """Every byte is written. Raises Moved if some may not be the boundary's."""
        if loan.is_proven:
            return
        if not loan.is_copied:
            loan.compare()
        began = self.clock.now_s()
        what = self.gate.moved(loan, COME_BY_S, lambda: self.clock.sleep(SETTLE_S))
        loan.proof_s = self.clock.now_s() - began
        if what is not None:
            raise Moved(what)
        loan.is_proven = True
        self.gate.give_back()

    def _moved(self, step: int, moved: Moved) -> None:
        self.on_moved()
        self.statistics.redo = True
        logs.warning(
            f"{moved.what} changed after the boundary of step {step} and before an optimizer came to update it, so "
            "that save is not announced. The next step boundary is saved instead, and from now on the state is copied "
            "while the program stands still. Every checkpoint that was announced is sound.",
            event="save_redone",
            step=step,
        )
