"""Peak memory that a save needs besides the state itself."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from bench import engine, peers
from bench.plan import MIB, size_name
from bench.rows import Row, unmeasured

if TYPE_CHECKING:
    from pathlib import Path

    from bench.plan import Plan

BAR = 1.1
STREAMING_LIMIT = 300 * MIB
DEADLINE_S = 180


def run(plan: Plan, directory: Path) -> list[Row]:
    extra = dict[str, int]()
    state_bytes = 0
    for number, who in enumerate(["ours", *list(peers.loop_savers())[-plan.memory_peers :]]):
        extra[who], state_bytes = _one(who, plan.large_bytes, directory / str(number))
    name = f"peak extra memory of a save, {size_name(plan.large_bytes)}"
    ours = extra.pop("ours") / MIB
    rows = [_row(name, ours, state_bytes / MIB, "the state itself", BAR)]
    rows += [_row(name, ours, other / MIB, peer, None) for peer, other in extra.items()]
    streaming = f"peak extra memory of a streaming save, {size_name(plan.large_bytes)}"
    limit = f"{STREAMING_LIMIT // MIB} MiB"
    rows.append(unmeasured(streaming, "MiB", limit, 1.0, engine.STREAMING_MISSING))
    return rows


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
