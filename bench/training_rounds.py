"""Rounds of a training loop: so many steps and at most one save, by the engine, by a peer, or by nobody.

A round ends when its save is complete. In a long run the next save would wait for it, so waiting is part of the price.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import peers, raw, states
from bench.engine import EngineSession
from bench.measure import cpu_seconds, quiet_disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.states import Training

OURS = "ours"
NONE = ("no save", "no save, again")
"""Twice a round: what they differ by is the noise that a save's price is seen against."""


@dataclass(frozen=True)
class Round:
    blocked_s: float
    """Time in calls that keep the loop from its next step."""
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Found:
    """All rounds by candidate, in order, so that equal indices are neighbours in time."""

    rounds: dict[str, list[Round]]
    memcpy_s: list[float]
    """A plain copy of the state's bytes, taken once a round."""
    boundary_s: list[float]
    """What passing a boundary without a save takes in the engine's session."""
    step_s: float
    size_bytes: int

    def price(self, name: str, what: Callable[[Round], float]) -> list[float]:
        """What each round cost beyond the mean of its two neighbours that saved nothing."""
        plain = [(what(a) + what(b)) / 2 for a, b in zip(*(self.rounds[each] for each in NONE), strict=True)]
        return [what(mine) - without for mine, without in zip(self.rounds[name], plain, strict=True)]

    def noise(self) -> list[float]:
        first, again = (self.rounds[name] for name in NONE)
        return [abs(a.wall_s - b.wall_s) for a, b in zip(first, again, strict=True)]


def measure(
    size_bytes: int, steps: int, rounds: int, step_s: float, directory: Path, *, snapshot: str = "auto"
) -> Found:
    """Interleaved rounds of every candidate on one model. `step_s`: the least that a step is made to take."""
    training = states.Training(size_bytes)
    size = states.nbytes(training.state())
    buffer = raw.Buffer(size)
    memcpy_s, boundary_s = list[float](), list[float]()

    def copied() -> float:
        began = time.perf_counter()
        buffer.memcpy()
        return time.perf_counter() - began

    copied()
    step_s = training.lengthen_steps(max(step_s, 2.2 * min(copied() for _ in range(3))))
    with ExitStack() as stack:
        ours = stack.enter_context(EngineSession(directory / "line", training, every_steps=steps, snapshot=snapshot))
        candidates = {
            NONE[0]: lambda: plain_round(training, steps),
            OURS: lambda: _engine(training, steps, ours, boundary_s),
            NONE[1]: lambda: plain_round(training, steps),
        }
        for name, make in peers.loop_savers().items():
            saver = make()
            stack.callback(saver.close)
            candidates[name] = lambda saver=saver: _peer(training, steps, saver, directory / "peer")
        found: dict[str, list[Round]] = {name: [] for name in candidates}
        names = list(candidates)
        for number in range(rounds + 1):
            turn = number % len(names)
            taken = {name: candidates[name]() for name in names[turn:] + names[:turn]}
            copy_s = copied()
            if number == 0:  # nothing is allocated or started any more from here on
                boundary_s.clear()
                continue
            memcpy_s.append(copy_s)
            for name, each in taken.items():
                found[name].append(each)
    return Found(found, memcpy_s, boundary_s, step_s, size)


def plain_round(training: Training, steps: int) -> Round:
    quiet_disk()
    cpu, began = cpu_seconds(), time.perf_counter()
    for _ in range(steps):
        training.step()
    return Round(0.0, time.perf_counter() - began, cpu_seconds() - cpu)


def _engine(training: Training, steps: int, ours: EngineSession, boundary_s: list[float]) -> Round:
    quiet_disk()
    ours.gate_s = 0.0
    cpu, began = cpu_seconds(), time.perf_counter()
    blocked = ours.next_step()
    training.step()
    for _ in range(steps - 1):
        boundary_s.append(ours.next_step())
        training.step()
    ours.wait_durable()
    return Round(blocked + ours.gate_s, time.perf_counter() - began, cpu_seconds() - cpu)


def _peer(training: Training, steps: int, saver: peers.Saver, path: Path) -> Round:
    quiet_disk()
    cpu, began = cpu_seconds(), time.perf_counter()
    saver.save(training.state(), path)
    blocked = time.perf_counter() - began
    for _ in range(steps):
        training.step()
    saver.wait()
    cost = Round(blocked, time.perf_counter() - began, cpu_seconds() - cpu)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return cost
