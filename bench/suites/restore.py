"""A verified restore into existing tensors, from memory (warm) and from the disk (cold)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import peers, raw, states
from bench.engine import EngineLine
from bench.measure import Cost, drop_from_cache, interleaved, release_memory, seconds, timed, warm_cache
from bench.plan import size_name
from bench.rows import Row, compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.plan import Plan

READ_BAR = 1.25
"""At least 80 % of the speed of a raw read."""
PEER_BAR = 1.0
COLD_PAIRS = 3


def run(plan: Plan, directory: Path) -> list[Row]:
    rows = list[Row]()
    for size in plan.sizes:
        rows += _of_size(size, plan.pairs_of(size), directory / str(size), cold=size == max(plan.sizes))
    return rows


def _of_size(size: int, pairs: int, directory: Path, *, cold: bool) -> list[Row]:
    directory.mkdir()
    training = states.Training(size)
    state = training.state()
    buffer = raw.Buffer(states.nbytes(state))
    line = EngineLine(directory / "line")
    line.save_program(1, training)
    peers.torch_save(state, directory / "torch")
    peers.safetensors_save(state, directory / "safetensors")
    peers.dcp_save(state, directory / "dcp")
    buffer.write(directory / "raw", fsync=True)

    ours = "ours"
    into = f"{peers.TORCH_LOAD} + load_state_dict"
    actions: dict[str, tuple[str, Callable[[], object]]] = {
        ours: ("line", lambda: line.restore_into(training)),
        raw.READ: ("raw", lambda: buffer.read(directory / "raw")),
        peers.TORCH_LOAD: ("torch", lambda: peers.torch_load(directory / "torch")),
        into: ("torch", lambda: training.load(peers.torch_load(directory / "torch"))),
        f"{peers.SAFETENSORS_LOAD} + copy": (
            "safetensors",
            lambda: peers.copy_into(state, peers.safetensors_load(directory / "safetensors")),
        ),
        peers.DCP_LOAD: ("dcp", lambda: peers.dcp_load(state, directory / "dcp")),
    }
    bars = {raw.READ: READ_BAR, peers.TORCH_LOAD: PEER_BAR, peers.DCP_LOAD: PEER_BAR}

    def candidates(prepare: Callable[[Path], None]) -> dict[str, Callable[[], Cost]]:
        def once(place: str, action: Callable[[], object]) -> Cost:
            prepare(directory / place)
            release_memory()
            return timed(action)

        return {name: lambda each=each: once(*each) for name, each in actions.items()}

    found = interleaved(candidates(warm_cache), pairs)
    name = f"verified restore, warm, {size_name(size)}"
    rows = [
        compare(name, "s", seconds(found[ours]), seconds(costs), other, bar=bars.get(other))
        for other, costs in found.items()
        if other != ours
    ]
    if cold:
        found = interleaved(candidates(drop_from_cache), COLD_PAIRS, warm_up=0)
        name = f"verified restore, cold, {size_name(size)}"
        rows += [
            compare(name, "s", seconds(found[ours]), seconds(costs), other)
            for other, costs in found.items()
            if other != ours
        ]
    return rows
