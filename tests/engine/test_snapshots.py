"""Each way of taking a snapshot is exact, or its save is not announced and done again."""

from __future__ import annotations

import copy
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from app.loop import memory, parts
from app.loop.gate import Gate
from app.loop.loan import Loan
from app.loop.movers.host import HostMover
from app.loop.staging import Staging
from tests.engine.harness import Trial, reference, run_until_interrupted, run_until_stopped
from tests.engine.loops import Loop, Wide, same, steps_on

MODES = ["eager", "deferred", "streaming"]


@pytest.fixture(autouse=True)
def _fields_in_the_log(monkeypatch):
    monkeypatch.setenv("CLOUD_RUN_JOB", "job")


def lines(out: str, **having: Any) -> list[dict[str, Any]]:
    """Log lines with these fields."""
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [each for each in found if having.items() <= each.items()]


@pytest.fixture
def root(tmp_path) -> Path:
    (tmp_path / "line").mkdir()
    return tmp_path / "line"


class Clipped(Wide):
    """Weights are clipped past the optimizer after its step."""

    def body(self, step: int) -> None:
        super().body(step)
        for parameter in self.model.parameters():
            parameter.data.clamp_(-0.1, 0.1)


class Averaged(Wide):
    """A moving average is updated by hand at the top of each step; no optimizer has it."""

    def __init__(self) -> None:
        super().__init__()
        self.average = copy.deepcopy(self.model)
        self.subjects = {"model": {"live": self.model, "average": self.average}}

    def body(self, step: int) -> None:
        with torch.no_grad():
            for ours, live in zip(self.average.parameters(), self.model.parameters(), strict=True):
                ours.data.lerp_(live, 0.1)
        super().body(step)


class Accumulating(Wide):
    def body(self, step: int) -> None:
        self.backward()
        if step % 3 == 2:
            self.optimizer.step()
            self.optimizer.zero_grad()


class TwoOptimizers(Wide):
    def __init__(self) -> None:
        super().__init__()
        first, last = self.model[0], self.model[3]
        self.optimizer = {"a": torch.optim.Adam(first.parameters()), "b": torch.optim.SGD(last.parameters(), lr=0.1)}

    def body(self, step: int) -> None:
        self.backward()
        for each in self.optimizer.values():
            each.step()
            each.zero_grad()


class Skipping(Wide):
    """As a GradScaler that finds infinities: every other step updates nothing."""

    def body(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.backward()
        if step % 2:
            self.optimizer.step()


class WithClosure(Wide):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=2)

    def body(self, step: int) -> None:
        x = torch.randn(6, 4)

        def loss() -> torch.Tensor:
            self.optimizer.zero_grad()
            found = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
            found.backward()
            return found

        self.optimizer.step(loss)


class Duck:
    """An optimizer that is not torch's: no hook of torch sees it."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.moments = [torch.zeros_like(p) for p in parameters]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        for parameter, moment in zip(self.parameters, self.moments, strict=True):
            assert parameter.grad is not None
            moment.mul_(0.9).add_(parameter.grad)
            parameter.data.sub_(moment, alpha=1e-4)

    def state_dict(self) -> dict[str, Any]:
        return {"moments": self.moments}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for ours, saved in zip(self.moments, state_dict["moments"], strict=True):
            ours.copy_(saved)


class Ducked(Wide):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = Duck(list(self.model.parameters()))


class StepReplaced(Wide):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer.step = self.update

    def update(self) -> None:
        for parameter in self.model.parameters():
            parameter.data -= 1e-4 * parameter.grad


class StepReplacedLater(StepReplaced):
    """It was seen at the gate before."""

    def __init__(self) -> None:
        super().__init__()
        del self.optimizer.step

    def body(self, step: int) -> None:
        if step == 2:
            self.optimizer.step = self.update
        super().body(step)


PROVABLE = [Wide, Clipped, Averaged, Accumulating, TwoOptimizers, Skipping, WithClosure]
UNPROVABLE = [Ducked, StepReplaced]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [*PROVABLE, *UNPROVABLE], ids=lambda each: each.__name__)
def test_whatever_changes_parameters_each_mode_saves_what_was_there_at_the_boundary(
    tmp_path, root, capfd, program, mode
):
    (tmp_path / "truth").mkdir()
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

    (tmp_path / "truth").mkdir()
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
    (tmp_path / "truth").mkdir()
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


class WrittenInTheOpen(WrittenPast):
    def body(self, step: int) -> None:
        if step == self.at:
            with torch.no_grad():
                self.model[3].weight[0, 0] += 1  # one number: no checksum over a part need see it
        Wide.body(self, step)


def test_a_write_that_the_checksum_misses_is_found_by_the_version(tmp_path, root, capfd, monkeypatch):
    (tmp_path / "truth").mkdir()
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


def test_what_does_not_fit_into_memory_is_streamed_and_the_numbers_are_in_the_log(root, monkeypatch, capfd):
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)
    Wide().run(root, every=4, total=9)
    out = capfd.readouterr().out
    (told,) = lines(out, severity="WARNING")
    assert told["available_bytes"] == 2**20
    assert told["staging_bytes"] >= 2**20
    assert [line["snapshot"] for line in lines(out) if "save_bytes" in line] == ["streaming", "streaming", "direct"]


def test_a_mount_takes_memory_for_each_file_that_is_written_at_once(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 300 * 2**20)
    assert memory.staging_fits(200 * 2**20, on_mount=False)
    assert not memory.staging_fits(200 * 2**20, on_mount=True)
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert memory.staging_fits(2**40, on_mount=True)


def test_a_dear_copy_is_deferred_and_a_cheap_one_is_not(root, monkeypatch, capfd):
    cost = [0.0]
    monkeypatch.setattr(HostMover, "expected_s", lambda _self, _size: cost[0])

    class Dearer(Wide):
        def body(self, step: int) -> None:
            super().body(step)
            cost[0] = 1e9 if step >= 5 else 0.0

    Dearer().run(root, every=3, total=7)
    told = [line["snapshot"] for line in lines(capfd.readouterr().out) if "save_bytes" in line]
    assert told == ["eager", "deferred", "direct"]


def test_what_stands_in_staging_is_reused_and_grows_with_the_state():
    made: list[int] = []

    def allocate(size: int) -> torch.Tensor:
        made.append(size)
        return torch.empty(size, dtype=torch.uint8)

    staging = Staging(allocate)
    small = [torch.ones(3), torch.ones(2, 5, dtype=torch.bfloat16), torch.tensor(True), torch.empty(0)]
    first = staging.views(small)
    assert [(view.shape, view.dtype) for view in first] == [(value.shape, value.dtype) for value in small]
    assert staging.views([value.clone() for value in small]) is first
    again = staging.views([torch.ones(7)])
    assert again[0].data_ptr() == first[0].data_ptr()
    staging.views([torch.ones(2**20)])
    assert made == [2 * 2**20, 4 * 2**20]


def test_step_lines_say_what_is_at_risk(root, capfd):
    from app import session
    from app.shutdown import Shutdown
    from tests.engine.loops import begin

    loop = Loop()
    subjects: dict[str, Any] = {"model": loop.model, "optimizer": loop.optimizer}
    with session(total_steps=5, every_steps=100, start=begin(root), shutdown=Shutdown(), **subjects) as run:
        for step in run.steps():
            loop.body(step)
            run.log(loss=1.0)
    points = [line for line in lines(capfd.readouterr().out) if "loss" in line]
    assert [line["at_risk_steps"] for line in points] == [1, 2, 3, 4, 5]
    assert all(line["at_risk_s"] >= 0 for line in points)


def test_no_memory_for_a_copy_is_a_failed_save_and_no_end(root, monkeypatch, capfd):
    views, failures = Staging.views, [1]

    def short_of_memory(self: Staging, values: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            raise MemoryError("no room")
        return views(self, values)

    monkeypatch.setattr(Staging, "views", short_of_memory)
    monkeypatch.setattr("app.loop.interval.FIRST_AGAIN_S", 0.0)
    Loop().run(root, every=4, total=8)
    (failed,) = lines(capfd.readouterr().out, event="save_failed")
    assert failed["step"] == 4
    assert failed["message"].startswith("Saving step 4 failed")
    assert 5 in steps_on(root)
