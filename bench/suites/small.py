"""Many small tensors against a hundred of the same bytes: what each tensor costs besides its bytes."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

from bench import peers, states
from bench.engine import EngineLine
from bench.measure import Cost, interleaved, seconds, timed, timed_write
from bench.plan import size_name
from bench.rows import Row, compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.plan import Plan

BAR = 1.5
FEW = 100
PEER_PAIRS = 3
"""DCP takes seconds for each save of 10,000 tensors."""


def run(plan: Plan, directory: Path) -> list[Row]:
    few, many = (states.tensors(count, plan.small_bytes) for count in (FEW, plan.many))
    lines = {"few": _saved(few, directory / "line-few"), "many": _saved(many, directory / "line-many")}
    path = directory / "saved"
    save_many = partial(_save, many, path)
    restore_many = partial(timed, lines["many"].restore)
    found = _seconds(
        {
            "save few": partial(_save, few, path),
            "save many": save_many,
            "restore few": partial(timed, lines["few"].restore),
            "restore many": restore_many,
        },
        plan.pairs,
    )
    title = f"{plan.many:,} tensors, {size_name(plan.small_bytes)}"
    reference = f"{FEW} tensors of the same bytes, ours"
    rows = [
        compare(f"save of {title}", "s", found["save many"], found["save few"], reference, bar=BAR),
        compare(f"restore of {title}", "s", found["restore many"], found["restore few"], reference, bar=BAR),
    ]
    savers = {name: partial(_peer_save, save, many, path) for name, save in peers.blocking().items()}
    found = _seconds({"ours": save_many, **savers}, min(PEER_PAIRS, plan.pairs))
    rows += [compare(f"save of {title}", "s", found["ours"], found[name], name) for name in savers]
    peers.torch_save(many, directory / "torch")
    peers.dcp_save(many, directory / "dcp")
    loaders = {
        peers.TORCH_LOAD: partial(timed, partial(peers.torch_load, directory / "torch")),
        peers.DCP_LOAD: partial(timed, partial(peers.dcp_load, many, directory / "dcp")),
    }
    found = _seconds({"ours": restore_many, **loaders}, min(PEER_PAIRS, plan.pairs))
    rows += [compare(f"restore of {title}", "s", found["ours"], found[name], name) for name in loaders]
    return rows


def _seconds(candidates: dict[str, Callable[[], Cost]], pairs: int) -> dict[str, list[float]]:
    return {name: seconds(costs) for name, costs in interleaved(candidates, pairs).items()}


def _saved(tree: dict[str, Any], root: Path) -> EngineLine:
    line = EngineLine(root)
    line.save(1, tree)
    return line


def _save(tree: dict[str, Any], path: Path) -> Cost:
    line = EngineLine(path)
    return _then_removed(timed_write(lambda: line.save(1, tree)), path)


def _peer_save(save: Callable[[dict[str, Any], Path], None], tree: dict[str, Any], path: Path) -> Cost:
    return _then_removed(timed_write(lambda: save(tree, path)), path)


def _then_removed(cost: Cost, path: Path) -> Cost:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return cost
