"""A program that hangs keeps its GPU and its bill: after ten times the usual step without one, say where and leave."""

from __future__ import annotations

import faulthandler
import statistics
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from app import logs
from app.contract import ExitCode, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.shutdown import Shutdown

TIMES_MEDIAN = 10
AT_LEAST_S = 600.0
POLL_S = 5.0


class Watchdog:
    """Starts at the third step: the first may compile for minutes. `clock` is replaced in tests."""

    def __init__(self, shutdown: Shutdown, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shutdown = shutdown
        self._clock = clock
        self._steps_s: deque[float] = deque(maxlen=101)
        self._step_at: float | None = None
        self._alive_at: float | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def median_step_s(self) -> float:
        """0 before the first step has ended."""
        return statistics.median(self._steps_s) if self._steps_s else 0.0

    def step(self) -> None:
        """Training thread: a step begins."""
        now = self._clock()
        if self._step_at is not None:
            self._steps_s.append(now - self._step_at)
        self._step_at = self._alive_at = now
        if self._thread is None and len(self._steps_s) >= 2:
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()

    def alive(self) -> None:
        """Training thread, within a step: it goes on. Says nothing of how long steps take."""
        self._alive_at = self._clock()

    def stop(self) -> None:
        self._stopped.set()

    def hung_for_s(self) -> float | None:
        """Seconds since the last sign of life if that is too long, else None."""
        if self._alive_at is None:
            return None
        silent = self._clock() - self._alive_at
        return silent if silent > max(AT_LEAST_S, TIMES_MEDIAN * self.median_step_s) else None

    def _watch(self) -> None:
        while not self._stopped.wait(POLL_S):
            silent = self.hung_for_s()
            if silent is not None and not self._shutdown.noticed.is_set():
                logs.error(
                    f"No step for {silent:.0f} s, where one takes {self.median_step_s:.1f} s: the program hangs. The "
                    "stacks of all threads follow on stderr. What was durable is safe; a retry resumes from there."
                )
                faulthandler.dump_traceback(all_threads=True)
                self._shutdown.leave(ExitCode.FAILED, Reason.HUNG)
