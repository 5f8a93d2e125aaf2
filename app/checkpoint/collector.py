"""Python's garbage collector, resting while objects are made that all stay.

Ten thousand tensors make so many tuples and small objects at once that it would go through everything there is,
torch's own objects among them, for nothing: hundreds of milliseconds, in the midst of a training step.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class _Collector:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting_for = 0
        """So many, in whatever threads."""
        self._was_on = True

    def rest(self) -> None:
        with self._lock:
            if not self._resting_for:
                self._was_on = gc.isenabled()
                gc.disable()
            self._resting_for += 1

    def wake(self) -> None:
        with self._lock:
            self._resting_for -= 1
            if not self._resting_for and self._was_on:
                gc.enable()

    def after_fork(self) -> None:
        """In a child, without the threads that would wake it. One of them may have held the lock."""
        if self._resting_for and self._was_on:
            gc.enable()
        self._lock = threading.Lock()
        self._resting_for = 0


_the = _Collector()
os.register_at_fork(after_in_child=_the.after_fork)


@contextmanager
def resting() -> Generator[None]:
    """From any thread. With the end of the last of those that overlap it is on again, if it was before."""
    _the.rest()
    try:
        yield
    finally:
        _the.wake()
