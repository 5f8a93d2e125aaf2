"""From the start of a process to its first step: with a checkpoint to restore, and without."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from bench import peers
from bench.measure import warm_cache
from bench.plan import size_name
from bench.rows import Row, compare

if TYPE_CHECKING:
    from pathlib import Path

    from bench.plan import Plan

SLACK = 1.15
DEADLINE_S = 180
MODES = ("fresh", "restart", "alone", "torch")


def run(plan: Plan, directory: Path) -> list[Row]:
    _start("prepare", plan.large_bytes, directory)  # also brings the libraries into the page cache
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for number in range(plan.starts):
        turn = number % len(MODES)
        for mode in MODES[turn:] + MODES[:turn]:
            warm_cache(directory / "line")
            warm_cache(directory / "torch")
            taken = _start(mode, plan.large_bytes, directory)
            shutil.rmtree(directory / "fresh", ignore_errors=True)
            found[mode].append(taken)
    total = {mode: [each["total_s"] for each in found[mode]] for mode in MODES}
    import_s = statistics.median(each["import_s"] for each in found["fresh"])
    enter = {mode: statistics.median(each["enter_s"] for each in found[mode]) for mode in MODES}
    restore_s = enter["alone"] - enter["fresh"]
    allowed = [SLACK * fresh + max(0.0, restore_s - import_s) for fresh in total["fresh"]]
    name = f"process start to first step, {size_name(plan.large_bytes)} restored, warm"
    reason = f"import {import_s:.2f} s, restore alone {restore_s:.2f} s"
    return [
        compare(
            name,
            "s",
            total["restart"],
            allowed,
            f"{SLACK} x the start without a checkpoint + max(0, restore - import)",
            bar=1.0,
            reason=reason,
        ),
        compare(name, "s", total["restart"], total["fresh"], "the same program without a checkpoint"),
        compare(name, "s", total["restart"], total["torch"], f"the same program with {peers.TORCH_LOAD}"),
    ]


def _start(mode: str, size: int, directory: Path) -> dict[str, float]:
    result = directory / "result.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench.first_step", mode, str(size), str(directory), str(result)]
    environment = os.environ | {"BENCH_STARTED": repr(time.monotonic())}
    subprocess.run(command, check=True, env=environment, timeout=DEADLINE_S)
    return json.loads(result.read_text(encoding="ascii")) if mode != "prepare" else {}
