"""Deciding what to resume from when many checkpoints are present."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench import raw
from bench.engine import EngineLine, build_many
from bench.measure import interleaved, seconds, timed
from bench.rows import Row, compare

if TYPE_CHECKING:
    from pathlib import Path

    from bench.plan import Plan

LIMIT_S = 0.050


def run(plan: Plan, directory: Path) -> list[Row]:
    root = directory / "line"
    build_many(root, plan.checkpoints)
    line = EngineLine(root)
    manifests = next(path for path in root.rglob("checkpoints") if path.is_dir())

    def list_and_read_newest() -> None:
        with os.scandir(manifests) as entries:
            newest = max((entry.stat().st_size, entry.path) for entry in entries)[1]
        with open(newest, "rb") as file:  # noqa: PTH123 - the least there is
            file.read()

    found = interleaved({"ours": lambda: timed(line.decide), "raw": lambda: timed(list_and_read_newest)}, plan.pairs)
    ours, least = seconds(found["ours"]), seconds(found["raw"])
    name = f"resume decision, {plan.checkpoints:,} checkpoints present"
    return [
        compare(name, "s", ours, [LIMIT_S] * len(ours), "50 ms", bar=1.0),
        compare(name, "s", ours, least, f"list, stat each, read the newest manifest ({raw.VERSION})"),
    ]
