"""What one execution can cost at worst, and what it is expected to cost under interruptions. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import inf
from random import Random

RESTART_S = 180
"""Assumed from the start of an attempt to its first new step: container, imports, checkpoint read."""
LOST_S = 60
"""Assumed to be trained again after an interruption. With notice a task saves; without, more may be lost."""
TRIALS = 2000


@dataclass(frozen=True)
class Exposure:
    """Worst case of one execution."""

    gpu_hours: float
    usd: float | None
    """None where the price of the GPU is unknown."""


@dataclass(frozen=True)
class Expectation:
    """Mean over many trainings at a given rate of interruptions."""

    gpu_hours: float
    usd: float | None
    interruptions: float
    """Of all tasks together."""
    finished: float
    """Share of trainings that one execution finishes, before any task's retries are spent."""


def worst_case(*, timeout_s: int, max_retries: int, tasks: int, usd_per_hour: float | None) -> Exposure:
    """timeout x (retries + 1) x tasks; a retry gets the full timeout again, and interrupted attempts are billed."""
    gpu_hours = timeout_s * (max_retries + 1) * tasks / 3600
    usd = None if usd_per_hour is None else round(gpu_hours * usd_per_hour, 2)
    return Exposure(gpu_hours=round(gpu_hours, 3), usd=usd)


def expected_case(
    *,
    work_h: float,
    interruptions_per_day: float,
    timeout_s: int,
    max_retries: int,
    tasks: int,
    usd_per_hour: float | None,
    restart_s: float = RESTART_S,
    lost_s: float = LOST_S,
) -> Expectation:
    """Expected cost of training `work_h` hours a task, undisturbed, over as many executions as that takes.

    Interruptions are independent of each other and of the task's age (a Poisson process). Each attempt first spends
    `restart_s`; one that is interrupted loses its last `lost_s`; one that meets its timeout hands over without loss.
    Drawn, not derived, with a fixed seed: equal arguments give equal answers, right to about 2 %.

    Raises ValueError if an attempt ends before its first new step: such a training never ends.
    """
    if timeout_s <= restart_s:
        raise ValueError(f"an attempt of {timeout_s} s ends before its first new step, which takes {restart_s:g} s")
    task = _Task(work_h, interruptions_per_day / 24, timeout_s / 3600, max_retries, restart_s / 3600, lost_s / 3600)
    # Long trainings have many attempts, which level out by themselves.
    least_attempts = work_h / (task.timeout_h - task.restart_h) + 1
    trials = max(20, min(TRIALS, int(200_000 / least_attempts)))
    chance = Random(0)  # noqa: S311 - a model, no secret
    drawn = [_one(task, chance) for _ in range(trials)]
    gpu_hours = sum(hours for hours, _, _ in drawn) / trials * tasks
    return Expectation(
        gpu_hours=round(gpu_hours, 2),
        usd=None if usd_per_hour is None else round(gpu_hours * usd_per_hour, 2),
        interruptions=round(sum(met for _, met, _ in drawn) / trials * tasks, 2),
        finished=round((sum(done for _, _, done in drawn) / trials) ** tasks, 3),
    )


@dataclass(frozen=True)
class _Task:
    work_h: float
    interruptions_per_h: float
    timeout_h: float
    retries: int
    restart_h: float
    lost_h: float


def _one(task: _Task, chance: Random) -> tuple[float, int, bool]:
    """(hours billed until done, interruptions, whether one execution's retries sufficed) of one task, drawn."""
    spent, met, left = 0.0, 0, task.work_h
    for attempt in count():
        interrupted_at = chance.expovariate(task.interruptions_per_h) if task.interruptions_per_h else inf
        needed = task.restart_h + left
        if needed <= min(interrupted_at, task.timeout_h):
            return spent + needed, met, attempt <= task.retries
        if interrupted_at < task.timeout_h:
            spent, met = spent + interrupted_at, met + 1
            left -= max(0.0, interrupted_at - task.restart_h - task.lost_h)
        else:
            spent += task.timeout_h
            left -= task.timeout_h - task.restart_h
    raise AssertionError("the loop has no end of its own")
