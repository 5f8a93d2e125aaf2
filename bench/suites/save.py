"""A durable save: the engine, its peers and the disk itself, with the same bytes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from bench import peers, raw, states
from bench.engine import EngineLine
from bench.measure import Cost, cpu, interleaved, seconds, timed, timed_write
from bench.plan import size_name
from bench.rows import Row, compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.plan import Plan

BAR = 1.0
"""At least as fast as a raw write + fsync of the same bytes."""


def run(plan: Plan, directory: Path) -> list[Row]:
    rows = list[Row]()
    for size in plan.sizes:
        rows += _of_size(size, plan.pairs_of(size), directory)
    return rows


def _of_size(size: int, pairs: int, directory: Path) -> list[Row]:
    training = states.Training(size)
    state = training.state()
    buffer = raw.Buffer(states.nbytes(state))
    ours = "ours"

    def engine() -> Cost:
        line = EngineLine(directory / "line")
        cost = timed_write(lambda: line.save(1, state))
        shutil.rmtree(directory / "line")
        return cost

    def saved(write: Callable[[Path], None]) -> Callable[[], Cost]:
        def once() -> Cost:
            path = directory / "peer"
            cost = timed_write(lambda: write(path))
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            return cost

        return once

    candidates: dict[str, Callable[[], Cost]] = {ours: engine}
    for name, save in peers.blocking().items():
        candidates[name] = saved(lambda path, save=save: save(state, path))
    candidates[raw.WRITE_FSYNC] = saved(lambda path: buffer.write(path, fsync=True))
    candidates[raw.WRITE] = saved(lambda path: buffer.write(path, fsync=False))
    candidates[raw.MEMCPY] = lambda: timed(buffer.memcpy)
    found = interleaved(candidates, pairs)
    name = f"durable save, {size_name(size)}"
    bars = {raw.WRITE_FSYNC: BAR}
    rows = [
        compare(name, "s", seconds(found[ours]), seconds(costs), other, bar=bars.get(other))
        for other, costs in found.items()
        if other != ours
    ]
    rows += [
        compare(f"CPU of a durable save, {size_name(size)}", "CPU s", cpu(found[ours]), cpu(found[other]), other)
        for other in (*peers.blocking(), raw.WRITE_FSYNC)
    ]
    return rows
