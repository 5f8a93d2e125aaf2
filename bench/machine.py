"""Where and when a run was made, for whoever reads its figures."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from pathlib import Path


def describe(directory: Path) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "file_system": _file_system(directory),
        "load_average": load(),
    }


def load() -> list[float]:
    """Over 1, 5 and 15 minutes; far above what one run makes itself, it says that others used the machine too."""
    return [round(each, 2) for each in os.getloadavg()]


def _file_system(directory: Path) -> str:
    path = str(directory.resolve())
    mounts = [mount for mount in psutil.disk_partitions(all=True) if path.startswith(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else "unknown"
