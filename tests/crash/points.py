"""Named points at which a forked attempt is killed: the file system calls it makes on its line, sorted into windows.

The functions of `os` are wrapped in the attempt's own process, so the engine under test is the one that runs in
production: nothing in it knows of points. A window is what the engine is about when the call is made:

- start: before the first shard of the attempt: claiming an epoch, resuming.
- write: shards and their directories.
- publish: from the last shard to the manifest under its name, the look at the ledger and the staged file included.
- prune: deleting.
- record: `latest.json`, the ledger document, `done.json`.
- compute: none of these, the program is in its steps.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from mmap import mmap
from pathlib import Path
from typing import Any

BY_PATH = ("open", "link", "unlink", "rename", "replace", "mkdir", "rmdir", "scandir", "listdir", "stat")
BY_DESCRIPTOR = ("write", "writev", "pwrite", "pwritev", "ftruncate", "posix_fallocate", "fsync", "fdatasync", "close")
WRITES = ("write", "pwrite")


class Window(Enum):
    START = "start"
    WRITE = "write"
    PUBLISH = "publish"
    PRUNE = "prune"
    RECORD = "record"
    COMPUTE = "compute"


WINDOWS = list(Window)


class How(Enum):
    BEFORE = "before the call"
    HALF = "in the middle of the write"
    SOON = "a random moment after"
    """The parent kills so many seconds after it was told that the point was reached."""
    INSTANT = "at a random instant"
    """The same, counted from the first step."""


@dataclass(frozen=True)
class Kill:
    """When to die. `label` is a window and a call, e.g. `publish/link`; `nth` counts from 1."""

    how: How
    label: str = ""
    nth: int = 0
    delay_s: float = 0.0


class Seam:
    """Between the engine and `os`, for one attempt on the line at `line`."""

    def __init__(self, line: Path, kill: Kill | None, now_in: mmap, reached: Callable[[], None]) -> None:
        self.counts: Counter[str] = Counter()
        self._line = f"{line}/"
        self._kill = kill
        self._now_in = now_in
        self._reached = reached
        self._descriptors: dict[int, str] = {}
        self._lock = threading.Lock()
        self._before_any_shard = True
        self._uncommitted = False
        self._published = False

    def install(self) -> None:
        for name in (*BY_PATH, *BY_DESCRIPTOR):
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    def in_steps(self) -> None:
        """The program's own work."""
        self._now_in[0] = WINDOWS.index(Window.COMPUTE)

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            where = self._where(name, arguments)
            if where is None:
                return real(*arguments, **options)
            self._at(name, where, lambda part: real(arguments[0], part, *arguments[2:]), arguments)
            result = real(*arguments, **options)
            self._after(name, where, result)
            return result

        return call

    def _where(self, name: str, arguments: tuple[Any, ...]) -> str | None:
        """The object below the line that the call is about; None for any other call. A link's is its new name."""
        if name in BY_DESCRIPTOR:
            first = arguments[0]
            return (self._descriptors.pop if name == "close" else self._descriptors.get)(first, None)
        path = arguments[1] if name in ("link", "rename", "replace") else arguments[0] if arguments else ""
        text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        return text.removeprefix(self._line) if str(text).startswith(self._line) else None

    def _at(self, name: str, where: str, write: Callable[[memoryview], object], arguments: tuple[Any, ...]) -> None:
        kill = self._kill
        with self._lock:
            window = self._window(name, where)
            label = f"{window.value}/{name}"
            self.counts[label] += 1
            self._now_in[0] = WINDOWS.index(window)
            if kill is None or (label, self.counts[label]) != (kill.label, kill.nth):
                return
            if kill.how is How.SOON:
                self._reached()
                return
            if kill.how is How.HALF and name in WRITES:
                content = memoryview(arguments[1]).cast("B")
                # A whole number of 512-byte blocks, because a direct write takes nothing else.
                write(content[: content.nbytes // 2 // 512 * 512 or content.nbytes // 2])
            os.kill(os.getpid(), signal.SIGKILL)

    def _window(self, name: str, where: str) -> Window:
        top = where.partition("/")[0]
        if name in ("unlink", "rmdir") and top in ("shards", "checkpoints"):
            return Window.PRUNE
        if top == "shards" and name not in ("scandir", "listdir", "stat"):
            self._before_any_shard, self._uncommitted, self._published = False, True, False
            return Window.WRITE
        if self._before_any_shard:
            return Window.START
        # After the commit the staged name goes and the directory is synced; any other call is about the next thing.
        self._published &= top in (".staging", "checkpoints") and name not in ("open", "scandir")
        if self._uncommitted or self._published:
            return Window.PUBLISH
        return Window.PRUNE if top in ("checkpoints", "shards") else Window.RECORD

    def _after(self, name: str, where: str, result: Any) -> None:
        if name == "open":
            self._descriptors[result] = where
        if self._uncommitted and where.startswith("checkpoints/") and name in ("link", "close", "rename", "replace"):
            self._uncommitted, self._published = False, True
        if name in ("replace", "close") and where.startswith("ledger/") and not self._before_any_shard:
            self.in_steps()  # the last thing a save does
