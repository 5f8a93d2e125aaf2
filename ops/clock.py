"""Time as the commands use it, so that tests can pass in their own."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from ops.errors import UnreachableError

T = TypeVar("T")


class Clock(Protocol):
    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def patiently(clock: Clock, call: Callable[[], T], say: Callable[[str], None], *, limit_s: float = 900.0) -> T:
    """Repeats a *reading* call while the service cannot be reached: watching a long run must outlive a bad network.

    Says so once, waits 1 to 30 s between tries, and after `limit_s` lets the UnreachableError through.
    """
    began = clock.monotonic()
    pause_s = 1.0
    while True:
        try:
            return call()
        except UnreachableError as error:
            if clock.monotonic() - began >= limit_s:
                raise
            if pause_s == 1.0:
                say(f"{error} Trying again; the execution does not depend on this.")
            clock.sleep(pause_s)
            pause_s = min(30.0, pause_s * 2)
