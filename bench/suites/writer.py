"""Whether a thread or another process should write: what each adds to a training loop. Comparisons without a bar."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench import states
from bench.measure import cpu_seconds, quiet_disk
from bench.plan import size_name
from bench.rows import Row, compare
from bench.suites.loop import STEP_S, cpu, wall
from bench.training_rounds import NONE, Round, plain_round
from bench.writers import Beside, by_a_process, by_a_thread

if TYPE_CHECKING:
    from pathlib import Path

    from bench.plan import Plan
    from bench.states import Training

THREAD = "written by a thread"
PROCESS = "written by another process"


def run(plan: Plan, directory: Path) -> list[Row]:
    training = states.Training(plan.loop_bytes)
    step_s = training.lengthen_steps(STEP_S)
    thread, process = by_a_thread(training, directory / "thread"), by_a_process(training, directory / "process")
    candidates = {
        NONE[0]: lambda: plain_round(training, plan.loop_steps),
        THREAD: lambda: _round(training, plan.loop_steps, thread),
        NONE[1]: lambda: plain_round(training, plan.loop_steps),
        PROCESS: lambda: _round(training, plan.loop_steps, process),
    }
    found: dict[str, list[Round]] = {name: [] for name in candidates}
    names = list(candidates)
    for number in range(2 * plan.loop_rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            taken = candidates[name]()
            if number:
                found[name].append(taken)
    thread.close()
    process.close()
    title = (
        f"with an eager save of {size_name(plan.loop_bytes)} every {plan.loop_steps} steps of {step_s * 1000:.0f} ms"
    )
    rows = list[Row]()
    for other in (PROCESS, NONE[0]):
        for what, unit, of in (("wall time", "s", wall), ("CPU", "CPU s", cpu)):
            ours, theirs = ([of(each) for each in found[name]] for name in (THREAD, other))
            rows.append(compare(f"{what} {title}, {THREAD}", unit, ours, theirs, other))
    return rows


def _round(training: Training, steps: int, beside: Beside) -> Round:
    quiet_disk()
    spent, began = cpu_seconds(), time.perf_counter()
    beside.begin()
    blocked = time.perf_counter() - began
    for _ in range(steps):
        training.step()
    beside.wait()
    found = Round(blocked, time.perf_counter() - began, cpu_seconds() - spent)
    beside.forget()
    return found
