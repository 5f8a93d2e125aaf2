"""How much memory this process can still ask for: what the machine has free, and what its control group is allowed.

In a container the group's limit comes first, and passing it ends the process by SIGKILL rather than by an error. Pages
of the file cache count as free, because the kernel takes them back before it kills. Sources: proc(5), cgroups(7), the
kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_LIMIT_BYTES = 2**60
"""Version 1 says "no limit" with a number near 2^63."""


@dataclass(frozen=True)
class _Version:
    """File names of one version of control groups."""

    limit: str
    usage: str
    cache: tuple[str, ...]
    """Fields of memory.stat that the kernel takes back when it needs room."""


_V1 = _Version("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
_V2 = _Version("memory.max", "memory.current", ("inactive_file", "active_file"))


def available_bytes(system: Path = Path("/")) -> int | None:
    """The smallest of what the machine and each control group above this process leave; None where nothing tells.

    `system` is the directory below which /proc and /sys are read.
    """
    found = [*_of_machine(system / "proc/meminfo"), *_of_groups(system)]
    return max(0, min(found)) if found else None


def _of_machine(meminfo: Path) -> Iterator[int]:
    for line in _text(meminfo).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield int(value.split()[0]) * 1024


def _of_groups(system: Path) -> Iterator[int]:
    root = system / "sys/fs/cgroup"
    for line in _text(system / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _up_from(root, path, _V2)
        elif "memory" in controllers.split(","):
            yield from _up_from(root / "memory", path, _V1)


def _up_from(root: Path, path: str, version: _Version) -> Iterator[int]:
    """What the group and each above it leave. A path of the host's, of which a container sees the end only, is root."""
    group = root / path.strip("/")
    if not group.is_dir():
        group = root
    while True:
        limit, usage = _number(group / version.limit), _number(group / version.usage)
        if limit is not None and usage is not None and limit < _NO_LIMIT_BYTES:
            yield limit - usage + _cache(group / "memory.stat", version)
        if group in (root, group.parent):
            return
        group = group.parent


def _cache(stat: Path, version: _Version) -> int:
    fields = (line.split() for line in _text(stat).splitlines())
    return sum(int(field[1]) for field in fields if len(field) == 2 and field[0] in version.cache)


def _number(file: Path) -> int | None:
    """None also for "max"."""
    text = _text(file).strip()
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    """Empty where there is no such file."""
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
