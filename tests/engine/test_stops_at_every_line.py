"""A stop is asked for at lines of the session's own code, all through a boundary that is saved and the step behind it.

Wherever it comes, the boundary or the next one is saved, and the run goes on from there to the weights of an
uninterrupted one. Lines are drawn evenly from all that the training thread executes: `EVERY=20` takes each twentieth.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import app.loop
from app.loop.saver import Saver
from tests.engine.loops import Loop, Wide, same, steps_on
from tests.engine.test_stops_at_saves import HalfDucked
from tests.engine.unusual_loops import Averaged, Ducked

if TYPE_CHECKING:
    from types import FrameType

CODE = str(Path(app.loop.__file__).parent)
SAVED = 6
"""The boundary at which a periodic save is taken; lines are counted from the step before it to the end of its step."""
HEARD_S = 0.05
"""The stop cannot be taken up while the line holds the gate's lock: then it is heard some lines later."""
TRIALS = 12
"""Of each program and way to save: what has "left" stays in this process, with three sleeping threads."""


class Lines:
    """What the training thread executes of the session's code; a stop is asked for at line `at`."""

    def __init__(self, at: int | None = None) -> None:
        self.count = 0
        self.asked, self.known = threading.Event(), threading.Event()
        self._at = at

    def begin(self) -> None:
        sys.settrace(self._called)

    def end(self) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(CODE) else None

    def _line(self, _frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._at:
                self.asked.set()
                self.known.wait(HEARD_S)
        return self._line


def traced(program: type[Loop], lines: Lines) -> Loop:
    class Traced(program):
        def body(self, step: int) -> None:
            super().body(step)
            if step == SAVED - 1:
                lines.begin()
            elif step == SAVED:
                lines.end()

    return Traced()


@pytest.mark.parametrize("snapshot", ["eager", "deferred", "streaming"])
@pytest.mark.parametrize("program", [Wide, HalfDucked, Ducked, Averaged])
def test_a_stop_at_any_line_of_a_boundary_and_its_step_loses_nothing(
    program: type[Loop], snapshot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    truth = program().run(tmp_path / "truth", snapshot=snapshot)
    uninterrupted = Lines()
    traced(program, uninterrupted).run(tmp_path / "counted", every=3, snapshot=snapshot)
    assert uninterrupted.count > 100
    every = int(os.environ.get("EVERY", uninterrupted.count // TRIALS))
    on_stop = Saver.on_stop
    for at in range(1, uninterrupted.count + 1, every):
        lines, line = Lines(at), tmp_path / f"stopped-at-{at}"

        def heard(saver: Saver, known: threading.Event = lines.known) -> None:
            on_stop(saver)
            known.set()

        with monkeypatch.context() as patched:
            patched.setattr(Saver, "on_stop", heard)
            traced(program, lines).run(line, every=3, snapshot=snapshot, stop_on=lines.asked)
        assert steps_on(line)[-1] in (SAVED, SAVED + 1), f"stopped at line {at}"
        assert same(program().run(line, snapshot=snapshot), truth), f"stopped at line {at}"
