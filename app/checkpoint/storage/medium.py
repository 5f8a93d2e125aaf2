"""What a directory lies on: a disk, or the mount of a bucket."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from enum import Enum
from pathlib import Path


class Medium(Enum):
    DISK = "disk"
    MOUNT = "mount"


_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""How a blank, a tab, a line's end or a backslash in a path is written there; all else is as it is."""


def medium_of(path: Path, mounts: Path = _MOUNTS) -> Medium:
    """MOUNT when `path` lies on a FUSE file system, by /proc/self/mountinfo (proc(5)); DISK otherwise."""
    target = str(path.resolve())
    best, kind = "", ""
    with suppress(OSError):
        for line in os.fsdecode(mounts.read_bytes()).rstrip("\n").split("\n"):
            left, _, right = line.partition(" - ")
            point = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), left.split(" ")[4])
            inside = (target + "/").startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, right.split(" ")[0]
    return Medium.MOUNT if kind.startswith("fuse") else Medium.DISK
