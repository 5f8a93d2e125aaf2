"""Peak memory that one save adds, in a process of its own: `python -m bench.memory_of_one WHO BYTES DIRECTORY RESULT`.

WHO is `ours, ` and a snapshot mode, or a peer's name. The result is the number of bytes by which the resident memory of
this process and its children grew at most, above what it was right before the save.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import torch

from bench import peers, states
from bench.engine import EngineSession
from bench.measure import release_memory

PAUSE_S = 0.01
OURS = "ours, "


class Peak:
    """Resident memory's high-water mark of this process, which the kernel keeps, and samples of its children's."""

    def __enter__(self) -> Peak:
        release_memory()  # freed gradients must not make room that the save then seems not to need
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # proc(5): resets VmHWM
        self._before = _status_bytes("VmRSS")
        self._children_before = self._children = _children_bytes()
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._sampler.join()
        own = _status_bytes("VmHWM") - self._before
        self.extra_bytes = own + max(0, self._children - self._children_before)

    def _sample(self) -> None:
        while not self._done.wait(PAUSE_S):
            self._children = max(self._children, _children_bytes())


def main() -> None:
    who, size, root, result = sys.argv[1:]
    directory = Path(root)
    directory.mkdir(parents=True)
    extra, state_bytes = (_ours if who.startswith(OURS) else _peer)(who, int(size), directory)
    Path(result).write_text(f"{extra} {state_bytes}", encoding="ascii")


def _ours(who: str, size: int, directory: Path) -> tuple[int, int]:
    training = states.Training(size)
    with EngineSession(directory / "line", training, every_steps=1, snapshot=who.removeprefix(OURS)) as ours:
        ours.next_step()
        training.step()
        with Peak() as peak:
            ours.next_step()
            ours.wait_durable()
    return peak.extra_bytes, states.nbytes(training.state())


def _peer(who: str, size: int, directory: Path) -> tuple[int, int]:
    peers.join_a_group_of_one(directory)
    training = states.Training(size)
    training.step()
    saver = peers.loop_savers()[who]()
    if who == peers.DCP_PROCESS:  # its process, and what that imports, are there before the first real save
        saver.save({"warm up": {"x": torch.zeros(1)}}, directory / "warm up")
        saver.wait()
    with Peak() as peak:
        saver.save(training.state(), directory / "peer")
        saver.wait()
    saver.close()
    return peak.extra_bytes, states.nbytes(training.state())


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def _children_bytes() -> int:
    """Private memory only: what is shared with this process is counted there."""
    total = 0
    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                memory = child.memory_info()
                total += memory.rss - memory.shared
    return total


if __name__ == "__main__":
    main()
