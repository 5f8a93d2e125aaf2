"""Limits a task's working memory by a control group, version 2 or 1, where the kernel lets us.

Nothing else is a substitute: RLIMIT_AS counts addresses, not memory, and RLIMIT_RSS is not enforced. Page cache
counts but is reclaimed first, so reading and writing large files kills nobody.
"""

import contextlib
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

_UNIT_BYTES = {
    "": 1,
    "k": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "Ti": 1024**4,
}


def quantity_bytes(text: str) -> int:
    """Bytes of a Kubernetes quantity such as `512Mi`.

    Raises:
        ValueError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(k|M|G|T|Ki|Mi|Gi|Ti)?", text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity of memory; write 512Mi or 16Gi.")
    return int(float(match[1]) * _UNIT_BYTES[match[2] or ""])


@dataclass(frozen=True)
class MemoryGroup:
    """One control group with a limit."""

    path: Path
    version: int

    @property
    def procs(self) -> Path:
        """File that takes the process which joins."""
        return self.path / "cgroup.procs"

    def overran(self) -> bool:
        """The kernel killed a process of this group because the limit was reached."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        try:
            counters = dict(line.split() for line in (self.path / name).read_text().splitlines())
        except OSError:
            return False
        return int(counters.get("oom_kill", 0)) > 0

    def peak_bytes(self) -> int:
        """Most memory the group ever used; 0 where the kernel does not say."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        try:
            return int((self.path / name).read_text())
        except OSError:
            return 0

    def kill(self) -> None:
        """SIGKILL to every process in the group, also those that left the process group."""
        for _ in range(10):
            try:
                members = [int(each) for each in self.procs.read_text().split()]
            except OSError:
                return
            if not members:
                return
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)

    def remove(self) -> None:
        """Remove the group; one that still has dying members is left to the next start."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def create(name: str, limit_bytes: int) -> MemoryGroup | None:
    """A new group with this limit, without swap; None where this process may not make one."""
    for root, version in _roots():
        path = root / "localcloud" / name
        try:
            path.mkdir(parents=True, exist_ok=True)
            if version == 2:
                (root / "localcloud" / "cgroup.subtree_control").write_text("+memory")
                (path / "memory.max").write_text(str(limit_bytes))
                with contextlib.suppress(OSError):
                    (path / "memory.swap.max").write_text("0")
                (path / "memory.oom.group").write_text("1")
            else:
                (path / "memory.limit_in_bytes").write_text(str(limit_bytes))
                with contextlib.suppress(OSError):
                    (path / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes))
        except OSError:
            with contextlib.suppress(OSError):
                path.rmdir()
            continue
        return MemoryGroup(path, version)
    return None


def existing(name: str) -> MemoryGroup | None:
    """The group of that name which an earlier server left behind."""
    for root, version in _roots():
        path = root / "localcloud" / name
        if path.is_dir():
            return MemoryGroup(path, version)
    return None


def _roots() -> list[tuple[Path, int]]:
    """Mounted hierarchies that can limit memory."""
    if sys.platform != "linux":
        return []
    found: list[tuple[Path, int]] = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup2":
            with contextlib.suppress(OSError):
                if "memory" in (Path(mount) / "cgroup.subtree_control").read_text().split():
                    found.append((Path(mount), 2))
        elif kind == "cgroup" and "memory" in options.split(","):
            found.append((Path(mount), 1))
    return found
