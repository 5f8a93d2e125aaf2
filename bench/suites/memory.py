"""Peak memory that a save needs besides the state itself."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from bench import memory_of_one, peers
from bench.plan import MIB, size_name
from bench.rows import Row

if TYPE_CHECKING:
    from pathlib import Path

    from bench.plan import Plan

BAR = 1.1
STREAMING_MIB = 300
DEADLINE_S = 180
OURS = [f"{memory_of_one.OURS}{mode}" for mode in ("eager", "deferred", "streaming")]


def run(plan: Plan, directory: Path) -> list[Row]:
    size = size_name(plan.large_bytes)
    found = dict[str, float]()
    state_mib = 0.0
    for number, who in enumerate([*OURS, *list(peers.loop_savers())[-plan.memory_peers :]]):
        extra, state_bytes = _one(who, plan.large_bytes, directory / str(number))
        found[who], state_mib = extra / MIB, state_bytes / MIB
    eager, deferred, streaming = (found.pop(who) for who in OURS)
    rows = [
        _row(f"peak extra memory of a save, {size}, eager", eager, state_mib, "the state itself", BAR),
        _row(f"peak extra memory of a save, {size}, deferred", deferred, state_mib, "the state itself", BAR),
        _row(f"peak extra memory of a streaming save, {size}", streaming, STREAMING_MIB, f"{STREAMING_MIB} MiB", 1.0),
    ]
    return rows + [
        _row(f"peak extra memory of a save, {size}", eager, other, who, None) for who, other in found.items()
    ]


def _one(who: str, size: int, directory: Path) -> tuple[int, int]:
    directory.mkdir()
    result = directory / "result"
    command = [sys.executable, "-m", "bench.memory_of_one", who, str(size), str(directory / "work"), str(result)]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    extra, state_bytes = result.read_text(encoding="ascii").split()
    return int(extra), int(state_bytes)


def _row(name: str, ours: float, reference: float, reference_name: str, bar: float | None) -> Row:
    ratio = ours / reference if reference > 0 else None
    holds = None if bar is None or ratio is None else ratio <= bar
    return Row(name, "MiB", ours, reference, reference_name, ratio, bar, holds, pairs=1)
