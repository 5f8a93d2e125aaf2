"""The worker's command line."""

from __future__ import annotations

import argparse
import importlib
from typing import NoReturn

from app.contract import Refusal

WORKLOADS = ("language_model", "countdown")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refusal(f"{message}. {self.format_usage().strip()}")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Flags, with `workload` the module to run and `identity` what its state belongs to. Raises Refusal."""
    parser = _Parser(prog="python -m app", description="Train, surviving interruptions. Needs CHECKPOINT_DIR.")
    parser.add_argument("workload", nargs="?", choices=WORKLOADS, default=WORKLOADS[0])
    parser.add_argument("--steps", type=_positive, help="steps in total, over all attempts")
    parser.add_argument(
        "--save-every", type=_positive, help="save after so many steps (default: as often as 1 %% of the time allows)"
    )
    parser.add_argument(
        "--keep", type=_positive, default=3, help="verified checkpoints that stay, 2 or more (default 3)"
    )
    parser.add_argument("--log-every", type=_positive, default=1, help="a log line every so many steps (default 1)")
    parser.add_argument("--step-delay", type=_seconds, help="seconds to sleep in each step, for rehearsals")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fork", action="store_true", help="resume in spite of a checkpoint of something else")
    model = parser.add_argument_group("language_model")
    model.add_argument("--size", choices=("tiny", "small", "medium", "l4"), default="tiny")
    model.add_argument(
        "--data", help="a folder or gs:// prefix of text (default: the source of Python's standard library)"
    )
    model.add_argument("--batch-size", type=_positive, help="sequences a step (default: by size)")
    model.add_argument("--learning-rate", type=float, help="peak of the schedule (default: by size)")
    flags = parser.parse_args(arguments)
    if flags.keep < 2:
        raise Refusal("--keep must be 2 or more: the last two verified checkpoints are never deleted")
    module = importlib.import_module(f"app.workloads.{flags.workload}")
    flags.workload = module
    flags.steps = flags.steps or module.STEPS
    flags.save_every = flags.save_every or module.SAVE_EVERY
    flags.step_delay = module.STEP_DELAY_S if flags.step_delay is None else flags.step_delay
    flags.identity = module.identity(flags)
    return flags


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to under 3600")
    return value
