"""Taking samples so that they can be compared: interleaved, warmed up, the disk quiet before each."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Cost:
    """What one sample took."""

    seconds: float
    cpu_s: float
    """CPU of this process, all threads, and of its children."""


def interleaved(
    candidates: Mapping[str, Callable[[], Cost]], rounds: int, *, warm_up: int = 1
) -> dict[str, list[Cost]]:
    """Each candidate once a round, the order rotating, so that a busy minute of the machine falls on all of them."""
    names = list(candidates)
    samples: dict[str, list[Cost]] = {name: [] for name in names}
    for number in range(warm_up + rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            cost = candidates[name]()
            if number >= warm_up:
                samples[name].append(cost)
    return samples


def timed_write(action: Callable[[], object]) -> Cost:
    """As `timed`, after everything dirty was written back."""
    quiet_disk()
    return timed(action)


def timed(action: Callable[[], object]) -> Cost:
    """Time and CPU of `action` alone."""
    cpu, began = cpu_seconds(), time.perf_counter()
    action()
    seconds = time.perf_counter() - began
    return Cost(seconds, cpu_seconds() - cpu)


def seconds(samples: Sequence[Cost]) -> list[float]:
    return [sample.seconds for sample in samples]


def cpu(samples: Sequence[Cost]) -> list[float]:
    return [sample.cpu_s for sample in samples]


def cpu_seconds() -> float:
    """CPU time used so far by this process and its live children (an asynchronous saver may be one)."""
    total = time.process_time()
    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                times = child.cpu_times()
                total += times.user + times.system
    return total


def quiet_disk() -> None:
    """Write back what others left dirty, so that the next fsync pays for its own bytes only."""
    os.sync()


def release_memory() -> None:
    """Give freed memory back, so that a restore finds none in place, as after the start of a process."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def drop_from_cache(root: Path) -> None:
    """Make the next read of these files come from the disk. Clean pages only go, so they are synced first."""
    for path in files(root):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def warm_cache(root: Path) -> None:
    """Read these files once, so that the next read comes from memory."""
    for path in files(root):
        with path.open("rb", buffering=0) as file:
            while file.read(16 * 2**20):
                pass


def files(root: Path) -> list[Path]:
    return [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
