"""What a directory lies on: a disk, or the mount of a bucket."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from pathlib import Path


class Medium(Enum):
    DISK = "disk"
    MOUNT = "mount"


def medium_of(path: Path) -> Medium:
    """MOUNT when `path` lies on a FUSE file system, by /proc/self/mountinfo (proc(5)); DISK otherwise."""
    target = str(path.resolve())
    best, kind = "", ""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            left, _, right = line.partition(" - ")
            point = left.split(" ")[4].encode().decode("unicode_escape")
            inside = (target + "/").startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, right.split(" ")[0]
    return Medium.MOUNT if kind.startswith("fuse") else Medium.DISK
