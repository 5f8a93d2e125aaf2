"""The gate between the training thread and a stop: which state may be saved at this instant.

A step is CLEAN from its boundary to the first optimizer update, and DIRTY from there to the next boundary. While it
is CLEAN the parameters still are those of the boundary, so a stop closes the gate and the last boundary is saved at
once, wherever the training thread is; that thread stops at the gate when it gets there. While it is DIRTY (parameters
half updated, or the scheduler not yet advanced) only the next boundary is worth saving, so the stop waits for it and
holds the thread there.

CLEAN is a claim about optimizers. A program that changes parameters by hand (a moving average at the top of the body)
breaks it while the save runs, so it is asked for again when every byte is written: a save that fails it is given up,
and the step counts as DIRTY.

Saving "the last boundary" in a DIRTY step would mix two steps; see docs/decisions.md for how that was found.

A periodic save may be lent tensors as well: the saver reads them after the boundary, and the gate keeps the training
thread from its next update, or from the next boundary, until they were read.
"""

from __future__ import annotations

import os
import threading
import time
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.loop.loan import Loan

B = TypeVar("B")


class Phase(Enum):
    CLEAN = "clean"
    DIRTY = "dirty"
    FINISHED = "finished"
    """The work is complete, or the program raised: no boundary will come."""


class Gate(Generic[B]):
    """`B` is the boundary state. `clean_is_proven(boundary)`: can CLEAN be trusted? See Program.untouched_since."""

    def __init__(self, clean_is_proven: Callable[[B], bool]) -> None:
        self._changed = threading.Condition()
        self._clean_is_proven = clean_is_proven
        self._phase = Phase.DIRTY
        self._boundary: B | None = None
        self._closed = False
        self._settled: B | None = None
        self._held_at: B | None = None
        self._held = False
        self._loan: Loan | None = None
        self._reading = False
        self._pid = os.getpid()

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def work_is_over(self) -> bool:
        return self._phase is Phase.FINISHED

    def pass_boundary(self, boundary: B) -> None:
        """Training thread: everything is at this boundary. Does not return once a stop has closed the gate."""
        with self._changed:
            self._take_back()
            self._boundary = boundary
            self._phase = Phase.CLEAN
            if self._closed:
                self._settled = self._held_at = boundary
                self._hold()  # for good: `confirm` gives up no boundary at which the thread is held
                raise AssertionError

    def pass_by(self) -> None:
        """Training thread: a boundary that cannot be saved, nor can what is after it."""
        with self._changed:
            self._take_back()
            self._hold()
            self._phase = Phase.DIRTY

    def enter_update(self) -> None:
        """Training thread, from the optimizer's pre-hook: parameters change next. A stop that saves holds them here."""
        if self._is_a_childs():
            return
        with self._changed:
            self._take_back()
            self._hold()
            if self._phase is Phase.CLEAN:
                self._phase = Phase.DIRTY

    def wait_if_held(self) -> None:
        """Training thread, in other long loops: no use in going on while a stop saves."""
        if self._is_a_childs():
            return
        with self._changed:
            if not self._reading:
                self._take_back()  # its word is waited for
            self._hold()

    def finish(self) -> None:
        """Training thread: no boundary will come any more."""
        with self._changed:
            self._take_back()
            self._phase = Phase.FINISHED
            self._changed.notify_all()

    def lend(self, loan: Loan) -> None:
        """Training thread, at a boundary: the saver reads these tensors until `give_back`."""
        with self._changed:
            self._loan, self._reading = loan, True

    def take_back(self) -> None:
        """Training thread, between two operations: wait until nothing is read any more."""
        with self._changed:
            self._take_back()

    def give_back(self) -> None:
        """Saver: what was lent is read. Again does nothing."""
        with self._changed:
            self._reading = False
            self._changed.notify_all()

    def moved(self, loan: Loan, timeout_s: float, settle: Callable[[], None]) -> str | None:
        """Saver: what changed of `loan` although no optimizer updated it, or None.

        Best told by the training thread when it takes the loan back, so wait that long for it. A stop or a closed
        program does not wait: `settle` then lets an operation under way get to where it can be seen.
        """
        with self._changed:
            waiting = self._changed.wait_for(
                lambda: self._loan is not loan or self._held or self._closed or self._phase is Phase.FINISHED, timeout_s
            )
            told_or_still = self._loan is not loan or self._held
        if waiting and not told_or_still:
            settle()
        with self._changed:
            return loan.moved

    def close(self) -> None:
        """Stop: from now on the training thread gets no further than the gate (CLEAN) or the next boundary (DIRTY)."""
        with self._changed:
            self._closed = True
            if self._phase is Phase.CLEAN and self._boundary is not None and self._is_proven(self._boundary):
                self._settled = self._boundary
            self._changed.notify_all()

    def settled(self, timeout_s: float) -> B | None:
        """Saver: the boundary to save after `close`, or None if none came within `timeout_s` or none will."""
        with self._changed:
            self._changed.wait_for(lambda: self._settled is not None or self._phase is Phase.FINISHED, timeout_s)
            return self._settled

    @property
    def is_holding(self) -> bool:
        """Whether the training thread has come to a place where it is held."""
        return self._held

    def confirm(self, boundary: B) -> bool:
        """Saver: whether the settled `boundary` still is what parameters hold. If not, `settled` gives the next one."""
        with self._changed:
            if self._held_at is boundary or self._is_proven(boundary):
                return True
            if self._held_at is None:
                self._settled = None
                if self._phase is Phase.CLEAN:
                    self._phase = Phase.DIRTY
                self._changed.notify_all()
            return False

    def _is_a_childs(self) -> bool:
        """In a forked child who would open the gate is not there, and nothing of its is saved."""
        return os.getpid() != self._pid

    def _is_proven(self, boundary: B) -> bool:
        try:
            return self._clean_is_proven(boundary)
        except RuntimeError:  # the program changed a dict of the optimizer's while it was looked at
            return False

    def _hold(self) -> None:
        """While a stop has a boundary settled."""
        self._held = True
        self._changed.notify_all()
        while self._settled is not None:
            self._changed.wait()
        self._held = False

    def _take_back(self) -> None:
        """What was lent, when it is read: from here on it may change."""
        if (loan := self._loan) is None:
            return
        began = time.perf_counter()
        self._held = True
        self._changed.notify_all()
        while self._reading:
            self._changed.wait()
        self._held = False
        loan.take_back(time.perf_counter() - began)
        self._loan = None
        self._changed.notify_all()
