"""Rules of money: numbers that are numbers, and the limit that stops a stack which could cost too much. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.cost_line import cost_terms
from infra.exposure import RESTART_S
from infra.problems import Problem, problem_with
from infra.settings import Settings

_NUMBER = r"[0-9]{1,9}(\.[0-9]{1,6})?"
_LEAST_TIMEOUT_S = 600
MOST_HOURS = 10_000


def check_numbers(s: Settings) -> Iterator[Problem]:
    """The texts that stand for numbers."""
    texts = {
        "gpuUsdPerHour": s.gpu_usd_per_hour,
        "maxExposureUsd": s.max_exposure_usd,
        "trainingHours": s.training_hours,
    }
    for name, value in texts.items():
        if value and not re.fullmatch(_NUMBER, value):
            yield problem_with(name, f"{value!r} is not such a number")
    hours = s.training_hours
    if re.fullmatch(_NUMBER, hours) and not 0 < float(hours) <= MOST_HOURS:
        yield problem_with("trainingHours", f"{hours} is out of range", 'gpujob:trainingHours: "24"')
    rate = s.interruptions_per_day
    if not re.fullmatch(_NUMBER, rate) or float(rate) > 24:
        yield problem_with("interruptionsPerDay", f"{rate!r} is not such a number", 'gpujob:interruptionsPerDay: "1"')


def check_exposure(s: Settings) -> Iterator[Problem]:
    """The limit, and whether training can advance at all. Only for settings that are right otherwise."""
    if s.training_hours and s.timeout_s <= RESTART_S:
        what = f"{s.timeout}: about {RESTART_S} s pass from the start of an attempt to its first new step"
        yield problem_with("timeout", what, "gpujob:timeout: 3600s", "more than that, where trainingHours is set")
    if not s.max_exposure_usd:
        return
    limit, worst = float(s.max_exposure_usd), s.exposure
    if worst.usd is None:
        what = f"no price of {s.gpu_type} is known here, so maxExposureUsd {limit:g} cannot be held"
        yield problem_with("gpuUsdPerHour", what, 'gpujob:gpuUsdPerHour: "1.50"', "your price of that GPU for an hour")
    elif worst.usd > limit:
        what = (
            f"one execution can cost {worst.usd:.2f} USD at worst ({cost_terms(s)}), more than the {limit:g} USD "
            "that this stack allows"
        )
        fitting = int(s.timeout_s * limit / worst.usd)
        paste = (
            f"gpujob:timeout: {fitting}s"
            if fitting >= _LEAST_TIMEOUT_S
            else f'gpujob:maxExposureUsd: "{worst.usd:.2f}"'
        )
        allowed = f"{worst.usd:.2f} or more; or a lower timeout, maxRetries or taskCount, since a retry resumes"
        yield problem_with("maxExposureUsd", what, paste, allowed)
