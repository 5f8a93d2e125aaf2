"""Real SIGTERMs, uniformly in time and at known instants of a step: no step is lost, and the weights stay the same."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.crash import attempts
from tests.crash.attempts import Ended, Mode, Stop
from tests.crash.line_on_disk import committed
from tests.crash.worker import SIGTERM_LINE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

UNIFORM = 200
IN_A_PLACE = 50
SNAPSHOTS = ("eager", "deferred", "streaming")


class Truth:
    """An uninterrupted run."""

    def __init__(self, root: Path, mode: Mode) -> None:
        attempts.warm_up()
        ended = attempts.run(root, mode)
        assert ended.status == 0, ended.log
        self.at_step = dict(ended.weights)
        self.at_end = at_end(root)
        self.seconds = ended.seconds

    def holds_for(self, ended: Ended) -> bool:
        return all(self.at_step[step] == weights for step, weights in ended.weights)


def at_end(root: Path) -> str:
    return str(json.loads((root / "job-task-0/done.json").read_text())["weights_sha256"])


def test_stopped_uniformly_in_time_it_loses_no_step_and_ends_the_same(tmp_path):
    mode = Mode(every_steps=4)
    (tmp_path / "truth").mkdir()
    truth = Truth(tmp_path / "truth", mode)
    chance, found = random.Random(0), Counter[str]()
    seconds = truth.seconds  # of a first run, which a busy moment may have made far longer than the others
    for number in range(UNIFORM):
        root = tmp_path / str(number)
        root.mkdir()
        mode = Mode({"snapshot": SNAPSHOTS[number % 3]}, every_steps=4)
        began = time.monotonic()
        ended = attempts.run(root, mode, stop=Stop(delay_s=chance.uniform(0, seconds)))
        assert ended.status in (0, 143), ended.log
        assert truth.holds_for(ended), ended.log
        if ended.status == 0:
            seconds = min(seconds, time.monotonic() - began)
            found["finished before it, or in spite of it"] += 1
        else:
            assert SIGTERM_LINE in ended.log
            second = attempts.run(root, mode)
            assert second.status == 0, second.log
            assert truth.holds_for(second), f"stopped:\n{ended.log}\nresumed:\n{second.log}"
            reached = max((step for step, _ in ended.weights), default=0)
            assert (second.resumed_from or 0) in (reached, reached + 1), f"{ended.log}\nresumed:\n{second.log}"
            found[f"stopped {'in a step' if ended.weights else 'before the first step'}"] += 1
        assert at_end(root) == truth.at_end, ended.log
        shutil.rmtree(root)
    print(f"{UNIFORM} SIGTERMs uniformly in time, 0 steps lost, 0 other weights: {dict(found)}")
    assert found["stopped in a step"] >= UNIFORM / 4


@pytest.mark.parametrize(
    ("where", "places"),
    [
        ("inside optimizer.step", ["halfway"]),
        ("between the step and the boundary", ["stepped", "ended"]),
        ("before the optimizer's step", ["began", "backward"]),
    ],
)
def test_stopped_in_a_known_place_of_50_steps_each_resume_has_the_right_weights(tmp_path, where, places):
    """One line; each attempt does a step, and hears of the stop in the next. It then goes on to where it is held."""
    modes = [Mode({"snapshot": each}, halved=True, steps=4 * IN_A_PLACE, every_steps=7) for each in SNAPSHOTS]
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = Truth(tmp_path / "truth", modes[0])
    begins = [0]
    for number in range(IN_A_PLACE):
        stop = Stop(places[number % len(places)], begins[-1] + 1)
        ended = attempts.run(tmp_path / "line", modes[number % len(modes)], stop=stop)
        assert ended.status == 143, ended.log
        assert truth.holds_for(ended), ended.log
        assert ended.weights[0][0] == begins[-1], ended.log
        reached = ended.weights[-1][0]
        (durable,) = [found.step for found in committed(tmp_path / "line/job-task-0")[-1:]]
        assert durable in (reached, reached + 1), ended.log
        begins.append(durable)
    last = attempts.run(tmp_path / "line", modes[0])
    assert last.status == 0, last.log
    assert last.resumed_from == begins[-1]
    assert truth.holds_for(last)
    assert at_end(tmp_path / "line") == truth.at_end
    print(f"{IN_A_PLACE} SIGTERMs {where}, 0 steps lost, 0 other weights")
