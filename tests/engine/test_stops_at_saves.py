"""A stop that comes while a boundary's save is being taken, in whatever way, saves that boundary and no other."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from app.loop import boundaries
from app.loop.saver import Saver
from app.loop.snapshot import Snapshots
from tests.engine.loops import Loop, Wide, same, steps_on
from tests.engine.unusual_loops import Duck, Ducked, TwoOptimizers


class HalfDucked(Wide):
    """The gate sees one of its optimizers, whose tensors are lent, and not the other: CLEAN is no proof."""

    def __init__(self) -> None:
        super().__init__()
        first, *_others, last = self.model
        self.seen = torch.optim.Adam(first.parameters(), lr=0.01)
        self.unseen = Duck(list(last.parameters()))
        self.optimizer = {"seen": self.seen, "unseen": self.unseen}

    def body(self, step: int) -> None:
        self.model.zero_grad()
        self.backward()
        self.seen.step()
        self.unseen.step()


class StopsWhileSaving:
    """Asks for a stop within the boundary at AT, and goes on when the saver knows of it."""

    AT = 6

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Event()
        self.known = threading.Event()
        on_stop, known = Saver.on_stop, self.known

        def and_say_so(saver: Saver) -> None:
            on_stop(saver)
            known.set()

        monkeypatch.setattr(Saver, "on_stop", and_say_so)

    def ask(self) -> None:
        self.asked.set()
        assert self.known.wait(30)


LOOPS = pytest.mark.parametrize("loop", [Wide, TwoOptimizers, HalfDucked, Ducked])


@LOOPS
@pytest.mark.parametrize("snapshot", ["eager", "deferred", "streaming"])
def test_while_a_periodic_save_is_taken(loop: type[Loop], snapshot: str, tmp_path, monkeypatch, capfd):
    truth = loop().run(tmp_path / "truth", snapshot=snapshot)
    with monkeypatch.context() as patched:
        stop, take = StopsWhileSaving(patched), Snapshots.take

        def interrupted(self: Snapshots, boundary: Any, interval_s: float) -> Any:
            if boundary.step == stop.AT:
                stop.ask()
            return take(self, boundary, interval_s)

        patched.setattr(Snapshots, "take", interrupted)
        loop().run(tmp_path / "line", every=3, snapshot=snapshot, stop_on=stop.asked)
    assert "No step boundary came" not in capfd.readouterr().out
    assert steps_on(tmp_path / "line") == [3, 6]
    assert same(loop().run(tmp_path / "line", snapshot=snapshot), truth)


@LOOPS
def test_while_the_attempt_hands_off_before_its_timeout(loop: type[Loop], tmp_path, monkeypatch, capfd):
    truth = loop().run(tmp_path / "truth")
    with monkeypatch.context() as patched:
        stop = StopsWhileSaving(patched)
        boundary = iter(range(1, 100))

        def is_due(**_: Any) -> bool:
            due = next(boundary) == stop.AT
            if due:
                stop.ask()
            return due

        patched.setattr(boundaries.handoff, "is_due", is_due)
        loop().run(tmp_path / "line", stop_on=stop.asked)
    assert "No step boundary came" not in capfd.readouterr().out
    assert steps_on(tmp_path / "line") == [6]
    assert same(loop().run(tmp_path / "line"), truth)


@LOOPS
def test_while_the_last_step_is_saved(loop: type[Loop], tmp_path, monkeypatch):
    """The work is done, and says so: a stop then changes no weight and asks for no second save."""
    truth = loop().run(tmp_path / "truth", 6)
    with monkeypatch.context() as patched:
        stop, save_now = StopsWhileSaving(patched), Saver.save_now

        def interrupted(self: Saver, *given: Any) -> None:
            stop.ask()
            save_now(self, *given)

        patched.setattr(Saver, "save_now", interrupted)
        loop().run(tmp_path / "line", 6, stop_on=stop.asked)
    assert steps_on(tmp_path / "line")[-1] == 6
    assert same(loop().run(tmp_path / "line", 6), truth)
