"""The worker's command line: `python -m app [WORKLOAD] [flags]`, of which a workload declares its own part."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import NoReturn

from app import workloads
from app.contract import Refusal
from app.workloads import Flags, Workload, positive, seconds, seed


@dataclass(frozen=True)
class Command:
    workload: Workload
    flags: Flags


class HelpShown(Exception):  # noqa: N818 - no error
    """The help was asked for and printed: there is nothing to run."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refusal(f"{message}. {' '.join(self.format_usage().split())}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002
        raise HelpShown


def parse(arguments: list[str]) -> Command:
    """The workload comes first, or is the default. Raises Refusal, HelpShown."""
    named = bool(arguments) and not arguments[0].startswith("-")
    name = arguments[0] if named else workloads.DEFAULT
    workload = workloads.load(name)
    own = argparse.ArgumentParser(add_help=False)
    workload.add_flags(own)
    parser = _Parser(
        parents=[own],
        prog=f"python -m app {name}",
        description="Train, surviving interruptions. Needs CHECKPOINT_DIR.",
        epilog=f"Workloads: {', '.join(workloads.names())}; each has its own: python -m app WORKLOAD --help",
    )
    _add_common_flags(parser)
    given = parser.parse_args(arguments[1:] if named else arguments)
    if given.keep < 2:
        raise Refusal("--keep must be 2 or more: the last two verified checkpoints are never deleted")
    flags = Flags(
        steps=given.steps or workload.STEPS,
        save_every=given.save_every or workload.SAVE_EVERY,
        keep=given.keep,
        log_every=given.log_every,
        step_delay_s=workload.STEP_DELAY_S if given.step_delay is None else given.step_delay,
        seed=given.seed,
        fork=given.fork,
        own=given,
    )
    return Command(workload, flags)


def _add_common_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=positive, help="steps in total, over all attempts")
    parser.add_argument(
        "--save-every", type=positive, help="save after so many steps (default: as often as 1 %% of the time allows)"
    )
    parser.add_argument(
        "--keep", type=positive, default=3, help="verified checkpoints that stay, 2 or more (default 3)"
    )
    parser.add_argument("--log-every", type=positive, default=1, help="a log line every so many steps (default 1)")
    parser.add_argument("--step-delay", type=seconds, help="seconds to sleep in each step, for rehearsals")
    parser.add_argument("--seed", type=seed, default=0, help="of everything random (default 0)")
    parser.add_argument("--fork", action="store_true", help="resume in spite of a checkpoint of something else")
