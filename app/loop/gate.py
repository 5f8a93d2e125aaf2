"""The gate between the training thread and a stop: which state may be saved at this instant.

A step is CLEAN from its boundary to the first optimizer update, and DIRTY from there to the next boundary. While it
is CLEAN the parameters still are those of the boundary, so a stop closes the gate and the last boundary is saved at
once, wherever the training thread is; that thread stops at the gate when it gets there. While it is DIRTY (parameters
half updated, or the scheduler not yet advanced) only the next boundary is worth saving, so the stop waits for it and
holds the thread there.

Saving "the last boundary" in a DIRTY step would mix two steps; see docs/decisions.md for how that was found.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

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

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def work_is_over(self) -> bool:
        return self._phase is Phase.FINISHED

    def pass_boundary(self, boundary: B) -> None:
        """Training thread: everything is at this boundary. Does not return once a stop has closed the gate."""
        with self._changed:
            self._boundary = boundary
            self._phase = Phase.CLEAN
            if self._closed:
                self._settled = boundary
                self._hold()

    def enter_update(self) -> None:
        """Training thread, from the optimizer's pre-hook: parameters change next. No return if a stop holds them."""
        with self._changed:
            if self._settled is not None:
                self._hold()
            if self._phase is Phase.CLEAN:
                self._phase = Phase.DIRTY

    def wait_if_held(self) -> None:
        """Training thread, in other long loops: no use in going on while a stop saves."""
        with self._changed:
            if self._settled is not None:
                self._hold()

    def finish(self) -> None:
        """Training thread: no boundary will come any more."""
        with self._changed:
            self._phase = Phase.FINISHED
            self._changed.notify_all()

    def close(self) -> None:
        """Stop: from now on the training thread gets no further than the gate (CLEAN) or the next boundary (DIRTY)."""
        with self._changed:
            self._closed = True
            if self._phase is Phase.CLEAN and self._boundary is not None and self._clean_is_proven(self._boundary):
                self._settled = self._boundary
            self._changed.notify_all()

    def settled(self, timeout_s: float) -> B | None:
        """Saver: the boundary to save after `close`, or None if none came within `timeout_s` or none will."""
        with self._changed:
            self._changed.wait_for(lambda: self._settled is not None or self._phase is Phase.FINISHED, timeout_s)
            return self._settled

    def _hold(self) -> None:
        self._changed.notify_all()
        while True:
            self._changed.wait()
