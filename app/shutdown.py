"""The stop signal: notice it at once, know the time that is left, leave in order.

`signal.set_wakeup_fd` writes the signal's number into a pipe in the C handler, so a watcher thread learns of it
within a millisecond while the main thread is still inside a kernel; a Python-level handler would run only after the
kernel returns.

Until a session takes over (`on_stop`), a stop ends the process at once: there is nothing to save before the first step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from app.contract import Reason

GRACE_S = 10.0
"""Cloud Run sends SIGKILL this long after SIGTERM."""
RESERVE_S = 1.0
"""Kept back from the grace for closing the ledger, flushing logs and leaving."""


def end_children() -> None:
    """SIGKILL every descendant: data workers hold no state, and outlive `os._exit` otherwise."""
    from pathlib import Path  # late: this module comes before the handlers

    waiting, found = [os.getpid()], list[int]()
    while waiting:
        parent = waiting.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                with suppress(OSError):
                    children = [int(pid) for pid in (task / "children").read_text(encoding="ascii").split()]
                    waiting += children
                    found += children
    for pid in found:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


class Shutdown:
    """The process's one stop. What ends processes, and the clock, are replaced in tests."""

    def __init__(
        self,
        *,
        grace_s: float = GRACE_S,
        exit_process: Callable[[int], NoReturn] = os._exit,
        end_children: Callable[[], None] = end_children,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._started_at = clock()
        self.on_stop: Callable[[], None] | None = None
        """Called once, from the watcher thread, when a stop is noticed; None: leave at once."""
        self.noticed = threading.Event()
        self._announced = threading.Event()
        self._grace_s = grace_s
        self._exit_process = exit_process
        self._end_children = end_children
        self._clock = clock
        self._noticed_at: float | None = None
        self._finalisers: list[Callable[[int, Reason], None]] = []
        self._leaving = threading.Lock()
        self._read_fd = -1
        self._write_fd = -1

    def install(self) -> None:
        """Hear SIGTERM and SIGINT from now on. Only from the main thread; a second call does nothing."""
        if self._write_fd >= 0:
            return
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                "Signals can be taken over in the main thread only, and without that a stop would save nothing. Call "
                "app.shutdown.process.install() there first; the session itself may then run in this thread."
            )
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        self._arm()
        os.register_at_fork(after_in_child=self._forget_in_child)
        threading.Thread(target=self._watch, name="stop-watcher", daemon=True).start()

    def rearm(self) -> bool:
        """Take the signals back if something (asyncio, a library) took them; True if so. Cheap; at each boundary."""
        if self._write_fd < 0 or threading.current_thread() is not threading.main_thread():
            return False
        taken = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False) != self._write_fd
        if taken or signal.getsignal(signal.SIGTERM) != self._heard:
            self._arm()
            return True
        return False

    def elapsed_s(self) -> float:
        """Seconds since this process began."""
        return self._clock() - self._started_at

    def remaining_s(self) -> float:
        """Seconds left to act in; infinite while no stop was noticed, RESERVE_S already taken off."""
        if self._noticed_at is None:
            return float("inf")
        return self._noticed_at + self._grace_s - RESERVE_S - self._clock()

    def before_leaving(self, finaliser: Callable[[int, Reason], None]) -> None:
        """Run `finaliser(exit_code, reason)` when the process leaves; all of them together get under a second."""
        self._finalisers.append(finaliser)

    def forget(self, finaliser: Callable[[int, Reason], None]) -> None:
        with suppress(ValueError):
            self._finalisers.remove(finaliser)

    def request(self, name: str = "SIGTERM") -> None:
        """A stop was asked for: from the watcher thread, or by a test."""
        if self.noticed.is_set():
            return  # one signal is heard twice, by the descriptor and by the handler
        self._noticed_at = self._clock()
        self.noticed.set()
        with suppress(RuntimeError):  # no thread can be started: what saves keeps to the time that is left by itself
            threading.Thread(target=self._leave_at_deadline, name="stop-deadline", daemon=True).start()
        _hurry()
        _announce(name)
        self._announced.set()
        if self.on_stop is None:
            _log("Stopped before the first step: nothing to save.")
            self._leave_stopped()
        self.on_stop()

    def leave(self, code: int, reason: Reason) -> NoReturn:
        """End the process with `code`: finalisers, flushed streams, no children left. The first caller decides."""
        if not self._leaving.acquire(blocking=False):
            while True:
                time.sleep(3600)
        if self.noticed.is_set():
            self._announced.wait(0.5)  # the main thread may leave before the watcher has said why
        closing = threading.Thread(target=self._finalise, args=(code, reason), name="leaving", daemon=True)
        try:
            closing.start()
        except RuntimeError:  # no thread can be started
            self._finalise(code, reason)
        else:
            began = self._clock()
            while closing.is_alive() and self._clock() - began < (0.5 if self.noticed.is_set() else 30.0):
                closing.join(0.1)  # and look again: a stop that comes meanwhile leaves less time
        self._end_children()
        self._exit_process(code)

    def _arm(self) -> None:
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._heard)
        signal.signal(signal.SIGINT, self._heard)

    def _heard(self, signum: int, _frame: FrameType | None) -> None:
        with suppress(BlockingIOError):  # the wake-up descriptor said so already, unless someone took it
            os.write(self._write_fd, bytes([signum]))

    def _watch(self) -> None:
        names = {int(signal.SIGTERM): "SIGTERM", int(signal.SIGINT): "SIGINT"}
        while True:
            for byte in os.read(self._read_fd, 64):
                if byte in names:  # SIGCHLD and others write here too
                    self.request(names[byte])

    def _leave_at_deadline(self) -> None:
        while (left := self.remaining_s()) > 0:
            time.sleep(min(left, 0.2))
            if self._leaving.locked():
                return
        _log("The grace period ends: leaving with what is durable.", severity="WARNING", event="given_up")
        self._leave_stopped()

    def _leave_stopped(self) -> NoReturn:
        from app.contract import ExitCode, Reason  # late: the handlers come before this import

        self.leave(ExitCode.STOPPED, Reason.STOPPED)

    def _finalise(self, code: int, reason: Reason) -> None:
        for finaliser in reversed(self._finalisers):
            try:
                finaliser(code, reason)
            except Exception as error:
                _log(f"While leaving: {error!r}", severity="ERROR")
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()

    def _forget_in_child(self) -> None:
        """A forked child (a data worker) shares the descriptor and would announce its own signals as ours."""
        with suppress(ValueError):
            signal.set_wakeup_fd(-1)
        for name in (signal.SIGTERM, signal.SIGINT):
            with suppress(ValueError):
                signal.signal(name, signal.SIG_DFL if name == signal.SIGTERM else signal.default_int_handler)
        for fd in (self._read_fd, self._write_fd):
            with suppress(OSError):
                os.close(fd)
        self._read_fd = self._write_fd = -1


def _announce(name: str) -> None:
    if name == "SIGTERM":
        _log("Received SIGTERM signal from platform. Initiating graceful shutdown...", severity="WARNING")
    else:
        _log(f"Received {name}. Initiating graceful shutdown...", severity="WARNING")


def _hurry() -> None:
    from app import logs  # late: the handlers come before this import

    logs.hurry()


def _log(message: str, severity: str = "INFO", **fields: str) -> None:
    from app import logs  # late: the handlers come before this import

    logs.emit(severity, message, **fields)


process = Shutdown()
"""The signal flag of this process: the one piece of global state."""
