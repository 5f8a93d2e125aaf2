"""Each way of taking a snapshot is exact, or its save is not announced and done again."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from app.loop import parts
from app.loop.gate import Gate
from app.loop.loan import Loan
from app.loop.movers.host import HostMover
from app.loop.saver import Saver
from app.loop.snapshot import Snapshot
from tests.engine.harness import Trial, reference, run_until_interrupted, run_until_stopped
from tests.engine.log_lines import lines
from tests.engine.loops import Wide, same, steps_on
from tests.engine.unusual_loops import PROVABLE, UNPROVABLE, Averaged, StepReplacedLater

pytestmark = pytest.mark.usefixtures("fields_in_the_log")


MODES = ["eager", "deferred", "streaming"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [*PROVABLE, *UNPROVABLE], ids=lambda each: each.__name__)
def test_whatever_changes_parameters_each_mode_saves_what_was_there_at_the_boundary(
    tmp_path, root, capfd, program, mode
):
    whole = program()
    whole.run(tmp_path / "truth")
    capfd.readouterr()
    for kill_at in (5, 7, 10):
        program().run(root, every=1, kill_at=kill_at, snapshot=mode)
        assert max(steps_on(root)) == kill_at
    out = capfd.readouterr().out
    assert lines(out, event="save_redone") == []
    told = {line["snapshot"] for line in lines(out) if "save_bytes" in line}
    assert ("eager" if program in UNPROVABLE and mode == "deferred" else mode) in told
    assert told <= {"eager", mode}
    resumed = program()
    assert same(resumed.run(root), whole.model.state_dict())
    if isinstance(resumed, Averaged):
        assert same(resumed.average.state_dict(), whole.average.state_dict())


def test_a_step_that_is_replaced_after_it_was_seen_is_not_relied_on_any_more(tmp_path, root):
    class Loop(StepReplacedLater):
        def body(self, step: int) -> None:  # as a program that was started again does it
            if step >= 2:
                self.optimizer.step = self.update
            super(StepReplacedLater, self).body(step)

    truth = Loop().run(tmp_path / "truth")
    Loop().run(root, every=1, kill_at=7, snapshot="deferred")
    assert same(Loop().run(root), truth)


class WrittenPast(Wide):
    """Parameters are written through `.data` at the top of a body, where no version tells; the copy comes after it."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.written = threading.Event()

    def body(self, step: int) -> None:
        if step == self.at:
            self.model[3].weight.data.mul_(0.5)
            self.written.set()
        super().body(step)


@pytest.mark.parametrize("mode", ["deferred", "streaming"])
def test_a_write_that_no_version_tells_of_is_found_by_the_checksum_and_the_save_done_again(
    tmp_path, root, capfd, monkeypatch, mode
):
    truth = WrittenPast(at=6).run(tmp_path / "truth")
    capfd.readouterr()
    loop = WrittenPast(at=6)
    after_the_write(monkeypatch, loop)
    loop.run(root, every=3, kill_at=8, snapshot=mode)
    assert steps_on(root) == [3, 7]
    out = capfd.readouterr().out
    (redone,) = lines(out, event="save_redone")
    assert redone["step"] == 6
    assert "model/3.weight changed" in redone["message"]
    (again,) = [line for line in lines(out, step=7) if "save_bytes" in line]
    assert again["snapshot"] == ("eager" if mode == "deferred" else mode)
    resumed = WrittenPast(at=6)
    assert same(resumed.run(root), truth)


def after_the_write(monkeypatch: pytest.MonkeyPatch, loop: WrittenPast) -> None:
    """What the second save is lent is read only after the body has written to it."""
    copy_late, copies = Loan.copy, [0]

    def waiting(self: Loan) -> None:
        copies[0] += 1
        if copies[0] == 2:
            assert loop.written.wait(30)
        copy_late(self)

    monkeypatch.setattr(Loan, "copy", waiting)


def test_a_save_that_must_be_redone_is_even_if_that_is_found_before_the_training_goes_on(root, capfd, monkeypatch):
    loop, copy, submit, saves = Wide(), Loan.copy, Saver.submit, [0]

    def written_meanwhile(self: Loan) -> None:
        if saves[0] == 2:
            loop.model[3].weight.data.mul_(0.5)
        copy(self)

    def done_when_it_returns(self: Saver, snapshot: Snapshot) -> None:
        saves[0] += 1
        submit(self, snapshot)
        if saves[0] == 2:
            self.wait()

    monkeypatch.setattr(Loan, "copy", written_meanwhile)
    monkeypatch.setattr(Saver, "submit", done_when_it_returns)
    loop.run(root, every=3, kill_at=8, snapshot="deferred")
    assert [line["step"] for line in lines(capfd.readouterr().out, event="save_redone")] == [6]
    assert steps_on(root) == [3, 7]


class WrittenInTheOpen(WrittenPast):
    def body(self, step: int) -> None:
        if step == self.at:
            with torch.no_grad():
                self.model[3].weight[0, 0] += 1  # one number: no checksum over a part need see it
        Wide.body(self, step)


def test_a_write_that_the_checksum_misses_is_found_by_the_version(tmp_path, root, capfd, monkeypatch):
    truth = WrittenInTheOpen(at=6).run(tmp_path / "truth")
    monkeypatch.setattr("app.loop.movers.host.HostWatch._sum", lambda *_: 0)
    WrittenInTheOpen(at=6).run(root, every=3, kill_at=8, snapshot="deferred")
    assert steps_on(root) == [3, 7]
    assert "model/3.weight changed" in capfd.readouterr().out
    assert same(WrittenInTheOpen(at=6).run(root), truth)


@pytest.mark.usefixtures("nothing_is_small")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", [1, 2, 3, 10, 11, 20])
def test_killed_in_a_step_it_resumes_from_its_boundary_and_ends_the_same(tmp_path, truth, mode, step):
    trial = Trial(tmp_path, every_steps=1, options={"snapshot": mode})
    run_until_interrupted(trial, "stepped", step)
    assert finish(trial) == truth
    assert trial.ledger()[1]["resumed_from_step"] == step


@pytest.fixture
def nothing_is_small(monkeypatch) -> None:
    """All that may be lent is lent."""
    monkeypatch.setattr(parts, "SMALL_BYTES", 0)


@pytest.mark.usefixtures("nothing_is_small")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", ["began", "backward", "updated", "ended"])
@pytest.mark.parametrize("step", [2, 11])
def test_stopped_while_a_save_is_under_way_it_ends_the_same(tmp_path, truth, mode, place, step):
    trial = Trial(tmp_path, every_steps=1, options={"snapshot": mode})
    assert run_until_stopped(trial, place, step) == 143
    assert finish(trial) == truth
    assert trial.ledger()[1]["resumed_from_step"] == (step if place in ("began", "backward") else step + 1)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> str:
    return reference(tmp_path_factory.mktemp("truth") / "line")


def finish(trial: Trial) -> str:
    Trial(trial.root).run()
    return str(trial.done()["weights_sha256"])


def test_a_stop_while_the_copy_is_under_way_finishes_that_save(root, monkeypatch, capfd):
    stopped, copying = threading.Event(), threading.Event()
    copy_late, close = HostMover.copy_late, Gate.close

    def slow(self: HostMover, views: Any, values: Any) -> None:
        copying.set()
        assert stopped.wait(30)
        copy_late(self, views, values)

    class Stopped(Wide):
        def body(self, step: int) -> None:
            if step == 5:
                assert copying.wait(30)
            super().body(step)

    def closed(self: Gate[Any]) -> None:
        close(self)
        stopped.set()  # no sooner: a copy that ends before the stop has closed the gate lets the step go on

    monkeypatch.setattr(HostMover, "copy_late", slow)
    monkeypatch.setattr(Gate, "close", closed)
    Stopped().run(root, every=5, stop_on=copying, snapshot="deferred")
    assert steps_on(root) == [5]
    (saved,) = [line for line in lines(capfd.readouterr().out) if "save_bytes" in line]
    assert (saved["step"], saved["snapshot"]) == (5, "deferred")
