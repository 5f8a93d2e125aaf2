"""What `python -m app NAME` can train: every module or package of this folder is a workload called by its name.

To add one, put `NAME.py` here with what `Workload` asks for; `countdown.py` is the smallest example. Nothing of this
folder is imported before the process hears SIGTERM, and only the workload that runs: import torch in `run`.
"""

from __future__ import annotations

import argparse
import importlib
import math
import pkgutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from app.contract import Refusal

if TYPE_CHECKING:
    from app.startup import Start

DEFAULT = "language_model"


@dataclass(frozen=True)
class Flags:
    """The command line of an attempt."""

    steps: int
    """In total, over all attempts."""
    save_every: int | None
    """Steps between saves; None: as often as 1 % of the time allows."""
    keep: int
    """Verified checkpoints that stay."""
    log_every: int
    step_delay_s: float
    """To sleep in each step, for rehearsals."""
    seed: int
    fork: bool
    """Resume in spite of a checkpoint of something else."""
    own: argparse.Namespace
    """Everything as argparse has it, with what the workload's `add_flags` declared."""


class Workload(Protocol):
    """A module: these are its names."""

    STEPS: int
    """Default of --steps."""
    SAVE_EVERY: int | None
    """Default of --save-every."""
    STEP_DELAY_S: float
    """Default of --step-delay, in seconds."""

    def add_flags(self, parser: argparse.ArgumentParser, /) -> None:
        """Declare flags of its own; none is fine."""
        ...

    def identity(self, flags: Flags, /) -> dict[str, Any]:
        """What its checkpoints belong to, known before anything is loaded. JSON values; a difference is refused."""
        ...

    def run(self, flags: Flags, start: Start, /) -> None:
        """One attempt: a session with `start` and `identity(flags)`, to its end."""
        ...


NEEDED = ("STEPS", "SAVE_EVERY", "STEP_DELAY_S", "add_flags", "identity", "run")


def names() -> list[str]:
    """Of every workload there is; nothing is imported."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def load(name: str) -> Workload:
    """Raises Refusal for a name that is not there, or a module that lacks something."""
    if name not in names():
        raise Refusal(
            f"There is no workload {name!r}; there are {', '.join(names())}. Each is a module of app/workloads/. "
            "usage: python -m app [WORKLOAD] [flags]"
        )
    module = importlib.import_module(f"{__name__}.{name}")
    if missing := [wanted for wanted in NEEDED if not hasattr(module, wanted)]:
        raise Refusal(f"app/workloads/{name} is no workload: it lacks {', '.join(missing)}. See app/workloads/.")
    return cast("Workload", module)


def positive(text: str) -> int:
    """A flag's type: a whole number from 1 to 10^12 - 1."""
    return _whole(text, 1, 10**12 - 1)


def seed(text: str) -> int:
    """A flag's type: what every generator takes as a seed, from 0 to 2^63 - 1."""
    return _whole(text, 0, 2**63 - 1)


def _whole(text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(most)) or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from {least} to {most}")
    return int(text)


def rate(text: str) -> float:
    """A flag's type: a number above 0, neither nan nor inf."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def seconds(text: str) -> float:
    """A flag's type: from 0 to under an hour."""
    value = _number(text)
    if not 0 <= value < 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to under 3600")
    return value


def _number(text: str) -> float:
    """nan for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
