"""A store that fails as planned, around any other: at which call, and how."""

from __future__ import annotations

import errno
import io
import threading
import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, BinaryIO

from app.checkpoint.names import FOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.checkpoint.storage.store import Entry, Store, Written

MADE = "made to fail"
"""In the text of every error."""
SLOW_S = 0.03
STALE_LISTINGS = 8
SET_BACK_S = 86400.0


class Fault(Enum):
    FULL = "full disk"
    BROKEN = "input/output error"
    FORBIDDEN = "permission lost"
    SHORT = "half is written, then an error"
    FEWER = "half is written, without an error"
    CLOSE = "all is written, closing fails"
    LOST = "it is done, the answer is an error"
    CUT = "half is read"
    VANISHED = "the object is gone for now"
    STALE = "old listings for a while"
    SLOW = "slow"
    SET_BACK = "the store's clock is set back"

    def concerns(self, method: str) -> bool:
        return method in _METHODS[self]


WRITING = ("create", "publish", "replace")
_METHODS = {
    Fault.FULL: WRITING,
    Fault.BROKEN: (*WRITING, "list", "open", "delete"),
    Fault.FORBIDDEN: (*WRITING, "list", "open", "delete"),
    Fault.SHORT: ("create", "replace"),
    Fault.FEWER: ("create",),
    Fault.CLOSE: ("create",),
    Fault.LOST: ("publish", "replace", "delete"),
    Fault.CUT: ("open",),
    Fault.VANISHED: ("open",),
    Fault.STALE: ("list",),
    Fault.SLOW: (*WRITING, "list", "open", "delete"),
    Fault.SET_BACK: ("list",),
}
_BEFORE = {Fault.FULL: errno.ENOSPC, Fault.BROKEN: errno.EIO, Fault.FORBIDDEN: errno.EACCES}
"""Nothing is done, this is raised."""


@dataclass(frozen=True)
class Call:
    number: int
    """From 0, over all methods."""
    method: str
    name: str

    def __str__(self) -> str:
        return f"call {self.number}, {self.method} {self.name}"


class Faulty:
    """`plan(call)` says what happens to it; None: nothing. It may do something itself, as another attempt would."""

    def __init__(self, inner: Store, plan: Callable[[Call], Fault | None] = lambda _call: None) -> None:
        self.inner = inner
        self.plan = plan
        self.calls: list[Call] = []
        self.happened: list[Call] = []
        self._lock = threading.Lock()
        self._at_first = [entry for folder in FOLDERS for entry in inner.list(folder)]
        self._stale_left = 0
        self._set_back = False

    def list(self, prefix: str) -> list[Entry]:
        fault = self._meet("list", prefix)
        if fault is Fault.STALE:
            self._stale_left = STALE_LISTINGS
        self._set_back |= fault is Fault.SET_BACK
        found = self.inner.list(prefix)
        if self._stale_left > 0:
            self._stale_left -= 1
            found = [entry for entry in self._at_first if entry.name.startswith(prefix)]
        if self._set_back:
            found = [replace(entry, modified_s=entry.modified_s - SET_BACK_S) for entry in found]
        return found

    def open(self, name: str) -> BinaryIO:
        fault = self._meet("open", name)
        if fault is Fault.VANISHED:
            raise FileNotFoundError(errno.ENOENT, MADE, name)
        file = self.inner.open(name)
        if fault is Fault.CUT:
            with file:
                content = file.read()
            return io.BytesIO(content[: len(content) // 2])
        return file

    def create(self, name: str, chunks: Iterable[memoryview]) -> Written:
        fault = self._meet("create", name)
        if fault in (Fault.SHORT, Fault.FEWER):
            content = b"".join(chunks)
            half = self.inner.create(name, [memoryview(content)[: len(content) // 2]])
            if fault is Fault.FEWER:
                return half
            raise OSError(errno.EIO, MADE, name)
        written = self.inner.create(name, chunks)
        if fault is Fault.CLOSE:
            raise OSError(errno.EIO, MADE, name)
        return written

    def publish(self, name: str, content: bytes, last_look: Callable[[], None] | None = None) -> None:
        fault = self._meet("publish", name)
        self.inner.publish(name, content, last_look)
        self._lose(fault, name)

    def replace(self, name: str, content: bytes) -> None:
        fault = self._meet("replace", name)
        self.inner.replace(name, content[: len(content) // 2] if fault is Fault.SHORT else content)
        if fault is Fault.SHORT:
            raise OSError(errno.EIO, MADE, name)
        self._lose(fault, name)

    def delete(self, name: str) -> None:
        fault = self._meet("delete", name)
        self.inner.delete(name)
        self._lose(fault, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _meet(self, method: str, name: str) -> Fault | None:
        """Count the call; what fails it before anything is done is raised here."""
        with self._lock:
            call = Call(len(self.calls), method, name)
            self.calls.append(call)
        fault = self.plan(call)
        if fault is None or not fault.concerns(method):
            return None
        self.happened.append(call)
        if fault is Fault.SLOW:
            time.sleep(SLOW_S)
        if number := _BEFORE.get(fault):
            raise OSError(number, MADE, name)
        return fault

    @staticmethod
    def _lose(fault: Fault | None, name: str) -> None:
        if fault is Fault.LOST:
            raise OSError(errno.EIO, MADE, name)


def at(number: int, fault: Fault) -> Callable[[Call], Fault | None]:
    """This one call."""
    return lambda call: fault if call.number == number else None


def from_then_on(number: int, fault: Fault) -> Callable[[Call], Fault | None]:
    """That call and all that follow."""
    return lambda call: fault if call.number >= number else None
