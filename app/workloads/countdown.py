"""The tutorial's program: a hundred steps of one second, a checkpoint every five. Needs no torch.

Try it: CHECKPOINT_DIR=$(mktemp -d) python -m app countdown --step-delay 0.1, and press Ctrl-C half-way.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from app import session

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from app.startup import Start
    from app.workloads import Flags

STEPS = 100
SAVE_EVERY = 5
STEP_DELAY_S = 1.0


def add_flags(_parser: ArgumentParser) -> None:
    """None of its own."""


def identity(_flags: Flags) -> dict[str, Any]:
    return {"workload": "countdown"}


def run(flags: Flags, start: Start) -> None:
    with session(
        total_steps=flags.steps,
        every_steps=flags.save_every,
        log_every=flags.log_every,
        identity=identity(flags),
        keep=flags.keep,
        fork=flags.fork,
        start=start,
    ) as run:
        for _ in run.steps():
            time.sleep(flags.step_delay_s)
            run.log()
