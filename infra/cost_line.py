"""What an execution can cost, in one line for the preview. Pure."""

from __future__ import annotations

from infra.settings import Settings


def cost_line(settings: Settings) -> str:
    """One line for the preview: the worst case, and what is expected where that can be said."""
    worst, expected = settings.exposure, settings.expectation
    line = f"One execution can cost {_money(worst.gpu_hours, worst.usd)} at worst ({cost_terms(settings)})."
    if expected is not None:
        rate, mean = settings.interruptions_per_day, _money(expected.gpu_hours, expected.usd)
        line += (
            f" {settings.training_hours} h of training at {rate} interruptions a day: {mean} expected; "
            f"{expected.finished:.0%} are done within the retries of one execution."
        )
    return line


def cost_terms(settings: Settings) -> str:
    """The factors of the worst case."""
    price = "" if settings.usd_per_hour is None else f" x {settings.usd_per_hour:.2f} USD/h"
    attempts = settings.max_retries + 1
    tasks = f"{settings.task_count} task" + ("s" if settings.task_count > 1 else "")
    return f"timeout {settings.timeout_s / 3600:g} h x {attempts} attempts x {tasks}{price}"


def _money(gpu_hours: float, usd: float | None) -> str:
    return f"{gpu_hours:g} GPU hours" + ("" if usd is None else f", {usd:.2f} USD")
