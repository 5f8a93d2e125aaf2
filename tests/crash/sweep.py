"""SIGKILL at named points and random instants of saves, then resume and compare: `python -m tests.crash.sweep`.

A trial is a line that is killed once, or twice, and then runs to its end. After each kill, read without the engine:
every committed checkpoint has its bytes, and the last two that were ever seen are there. Each resumed attempt must
begin at the newest checkpoint that was durable when its predecessor died, with the weights that an uninterrupted run
has at that step; the last one must end with that run's weights.

    make crash-sweep TRIALS=3072

ends with a line `N passed, N failed`. `--seed 1` is another sweep; a trial that failed is repeated by `--only NUMBER`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from app.checkpoint.storage.medium import Medium
from app.session import session
from tests.crash import attempts, sabotage
from tests.crash.attempts import Ended, Mode
from tests.crash.line_on_disk import Broken, Found, committed
from tests.crash.points import WRITES, How, Kill, Window

ATTACKED = (Window.WRITE, Window.PUBLISH, Window.PRUNE) * 3 + (Window.RECORD, Window.START)
"""Windows of the kills at named points, in turn."""
HOWS = (How.BEFORE, How.HALF, How.BEFORE, How.SOON, How.BEFORE, How.INSTANT)
SOON_S = 0.0015
SPOILED_TRIALS = 60
LIVES = 8
"""Until a line is killed where it should be: an attempt that resumed has fewer saves ahead, and may end before."""


class Wrong(Exception):  # noqa: N818
    """A promise of the engine that a trial saw broken."""


def modes() -> list[Mode]:
    """In turn. What this session has no argument for is left out."""
    known = inspect.signature(session).parameters
    snapshots = ("eager", "deferred", "streaming") if "snapshot" in known else (None,)
    found = list[Mode]()
    for keep, keep_every, frozen, medium, shard_bytes in (
        (3, None, False, Medium.DISK, None),
        (2, None, True, Medium.DISK, 2048),
        (2, 6, False, Medium.MOUNT, 2048),
        (3, None, True, Medium.MOUNT, None),
        (2, 3, True, Medium.DISK, 2048),
    ):
        for snapshot in snapshots:
            options = {"keep": keep, "keep_every": keep_every, "snapshot": snapshot}
            options = {key: value for key, value in options.items() if key in known and value is not None}
            found.append(Mode(options, frozen, medium, shard_bytes))
    return found


@dataclass(frozen=True)
class Truth:
    """An uninterrupted run."""

    at_step: dict[int, str]
    """Hash of the weights at the beginning of each step."""
    at_end: str
    counts: dict[str, int]
    seconds: float


@dataclass
class Outcome:
    number: int
    kills: list[tuple[str, str]] = field(default_factory=list)
    """Window and kind of each."""
    wrong: str = ""


class Sweep:
    """Trials by number. `prepare` runs in every attempt first: to spoil the engine."""

    def __init__(self, folder: Path, seed: int, prepare: Callable[[], None] = lambda: None) -> None:
        self._folder = folder
        self._seed = seed
        self._prepare = prepare
        self._modes = modes()
        self._truth = cache(self._uninterrupted)

    def trial(self, number: int) -> Outcome:
        index, chance = number % len(self._modes), random.Random(f"{self._seed} {number}")
        outcome = Outcome(number)
        wanted = 2 if number // len(self._modes) % 4 == 3 else 1
        try:
            for life in range(LIVES):
                root = self._folder / f"{number}-{life}"
                root.mkdir()
                outcome.kills.clear()
                self._life(root, life, chance, outcome, wanted)
                shutil.rmtree(root)
                if len(outcome.kills) == wanted:
                    break
        except (Wrong, Broken) as error:
            outcome.wrong = f"trial {number} ({self._modes[index]}; killed {outcome.kills}): {error}"
        return outcome

    def _life(self, root: Path, life: int, chance: random.Random, outcome: Outcome, wanted: int) -> None:
        index = outcome.number % len(self._modes)
        mode, truth, line = self._modes[index], self._truth(index), root / "job-task-0"
        durable = list[Found]()
        for _ in range(wanted):
            kill = self._kill(truth, outcome.number, life, chance)
            ended = attempts.run(root, mode, kill, self._prepare)
            _began_rightly(ended, durable, truth)
            durable = _as_promised(durable, committed(line), mode)
            if not ended.was_killed:
                break
            outcome.kills.append((ended.window.value, kill.how.value))
        ended = attempts.run(root, mode, None, self._prepare)
        _began_rightly(ended, durable, truth)
        if ended.status != 0:
            raise Wrong(f"the last attempt ended with {ended.status}:\n{ended.log[-3000:]}")
        _as_promised(durable, committed(line), mode)
        if json.loads((line / "done.json").read_text())["weights_sha256"] != truth.at_end:
            raise Wrong(f"it ended with other weights; resumed from {ended.resumed_from}")

    def _kill(self, truth: Truth, number: int, life: int, chance: random.Random) -> Kill:
        """Of later lives nearer to the attempt's beginning."""
        how, window = HOWS[number % len(HOWS)], ATTACKED[number % len(ATTACKED)]
        if how is How.INSTANT:
            return Kill(how, delay_s=chance.uniform(0, truth.seconds) / (1 + life))
        labels = sorted(label for label in truth.counts if label.startswith(f"{window.value}/"))
        if how is How.HALF:
            writes = [label for label in labels if label.partition("/")[2] in WRITES]
            how, labels = (how, writes) if writes else (How.BEFORE, labels)
        label = chance.choice(labels)
        return Kill(
            how, label, chance.randint(1, 1 + (truth.counts[label] - 1) // (1 + life)), chance.uniform(0, SOON_S)
        )

    def _uninterrupted(self, index: int) -> Truth:
        with tempfile.TemporaryDirectory(dir=self._folder) as root:
            ended = attempts.run(Path(root), self._modes[index])
            if ended.status != 0:
                raise RuntimeError(f"The uninterrupted run ended with {ended.status}:\n{ended.log}")
            at_end = json.loads((Path(root) / "job-task-0/done.json").read_text())["weights_sha256"]
            return Truth(dict(ended.weights), at_end, ended.counts, ended.seconds)


def _began_rightly(ended: Ended, durable: list[Found], truth: Truth) -> None:
    """An attempt that came so far resumed from the newest of `durable`."""
    if not ended.was_killed and ended.status != 0:
        raise Wrong(f"it ended with {ended.status}:\n{ended.log[-3000:]}")
    newest = durable[-1].step if durable else None
    if ended.resumed_from is not None and ended.resumed_from != newest:
        raise Wrong(f"it resumed from step {ended.resumed_from}, and {newest} was durable")
    if ended.weights and ended.weights[0][0] != (newest or 0):
        raise Wrong(f"it began at step {ended.weights[0][0]}, and {newest} was durable")
    for step, weights in ended.weights:
        if weights != truth.at_step[step]:
            raise Wrong(f"it came to step {step} with other weights")


def _as_promised(before: list[Found], now: list[Found], mode: Mode) -> list[Found]:
    """`now`, unless something of before is missing that must stay."""
    ever = sorted({*before, *now})
    must_stay = set(ever[-2:])
    if every := mode.options.get("keep_every"):
        must_stay |= {found for found in ever if found.step % every == 0}
    if missing := must_stay - set(now):
        raise Wrong(f"deleted: {', '.join(found.name for found in sorted(missing))}")
    return now


trials: list[Sweep] = []
"""The last is under way."""


def _trial(number: int) -> Outcome:
    return trials[-1].trial(number)


def sweep(numbers: range, seed: int, jobs: int, prepare: Callable[[], None] = lambda: None) -> Iterator[Outcome]:
    """Run these trials in `jobs` processes; outcomes as they come."""
    with tempfile.TemporaryDirectory(prefix="sweep-", ignore_cleanup_errors=True) as folder:
        trials.append(Sweep(Path(folder), seed, prepare))  # forked with it: what spoils the engine cannot be pickled
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            yield from pool.imap_unordered(_trial, numbers)


def told(outcomes: Iterable[Outcome], of: int) -> list[Outcome]:
    """Say every hundred how far it is, and what failed at once."""
    seen, began_at = list[Outcome](), time.monotonic()
    for outcome in outcomes:
        seen.append(outcome)
        if outcome.wrong:
            print(f"FAILED {outcome.wrong}", flush=True)
        if len(seen) % 100 == 0:
            print(f"{len(seen)} of {of} trials, {(time.monotonic() - began_at) / len(seen):.2f} s each", flush=True)
    return seen


def summary(outcomes: list[Outcome]) -> str:
    """Kills by window and kind."""
    kills = Counter(kill for outcome in outcomes for kill in outcome.kills)
    hows = list(dict.fromkeys(how.value for how in HOWS))
    lines = [f"{sum(kills.values())} kills:", f"  {'window':8} {'all':>5}   " + "   ".join(hows)]
    for window in Window:
        counts = [kills[window.value, how] for how in hows]
        columns = "   ".join(f"{count:{len(how)}}" for count, how in zip(counts, hows, strict=True))
        lines.append(f"  {window.value:8} {sum(counts):5}   {columns}")
    if unkilled := sum(not outcome.kills and not outcome.wrong for outcome in outcomes):
        lines.append(f"  and {unkilled} trials ended before their kill, {LIVES} times each")
    return "\n".join(lines)


def prove(seed: int, jobs: int) -> bool:
    """Whether the sweep finds each spoiled engine."""
    for name, spoil in sabotage.ALL.items():
        wrong = next(
            (outcome.wrong for outcome in sweep(range(SPOILED_TRIALS), seed, jobs, spoil) if outcome.wrong), ""
        )
        print(f"spoiled: {name}: {wrong.splitlines()[0] if wrong else 'NOT FOUND'}", flush=True)
        if not wrong:
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3072)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, help="repeat this one trial")
    parser.add_argument("--prove", action="store_true", help="first find each spoiled engine of sabotage.py")
    arguments = parser.parse_args()
    attempts.warm_up()
    if arguments.prove and not prove(arguments.seed, arguments.jobs):
        return 1
    numbers = range(arguments.trials) if arguments.only is None else range(arguments.only, arguments.only + 1)
    print(f"{len(numbers)} trials, seed {arguments.seed}, {len(modes())} modes", flush=True)
    outcomes = told(sweep(numbers, arguments.seed, arguments.jobs), len(numbers))
    failed = sum(bool(outcome.wrong) for outcome in outcomes)
    print(summary(outcomes))
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
