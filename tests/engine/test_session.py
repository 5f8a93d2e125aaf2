"""What a session captures and when it may save, with the training loops people really write."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from torch import nn

from app import session, startup
from app.contract import Refusal, Task
from app.loop.program import Program
from app.loop.run import Run
from app.shutdown import Shutdown
from tests.engine.harness import Interrupted, until_still


def begin(root: Path) -> startup.Start:
    task = Task(root)
    return startup.begin(task, startup.open_store(task))


def steps_on(root: Path) -> list[int]:
    return sorted(int(path.name[:12]) for path in (root / "job-task-0/checkpoints").glob("*.json"))


class Loop:
    """A program made anew for each attempt; `body(step)` is one step of it."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.subjects: dict[str, Any] = {}

    def backward(self) -> None:
        x = torch.randn(6, 4)
        (self.model(x) - x.sum(1, keepdim=True)).square().mean().backward()

    def body(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()

    def run(
        self, root: Path, total: int = 12, *, every: int = 100, stop_at: int | None = None, kill_at: int | None = None
    ) -> dict[str, torch.Tensor] | None:
        """Returns the weights. With `stop_at` a stop comes after that step's body, with `kill_at` a kill before it."""
        left = threading.Event()

        def exit_process(_code: int) -> NoReturn:
            left.set()
            while True:  # a process that has left does nothing more
                threading.Event().wait()

        shutdown = Shutdown(exit_process=exit_process, end_children=lambda: None, grace_s=4)

        def attempt() -> None:
            subjects = {"model": self.model, "optimizer": self.optimizer, **self.subjects}
            with session(total_steps=total, every_steps=every, start=begin(root), shutdown=shutdown, **subjects) as run:
                for step in run.steps():
                    if step == kill_at:
                        raise Interrupted
                    self.body(step)
                    if step == stop_at:
                        shutdown.request()

        if stop_at is None:
            try:
                attempt()
            except Interrupted:
                return None
        else:
            thread = threading.Thread(target=attempt, daemon=True)
            thread.start()
            assert left.wait(120)
            until_still(thread)
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}


def same(a: dict[str, torch.Tensor] | None, b: dict[str, torch.Tensor] | None) -> bool:
    assert a is not None
    assert b is not None
    return all(torch.equal(a[name], b[name]) for name in a)


class MicroSteps(Loop):
    """Each step is one micro-batch; the optimizer runs after every third."""

    def body(self, step: int) -> None:
        self.backward()
        if step % 3 == 2:
            self.optimizer.step()
            self.optimizer.zero_grad()


def test_a_boundary_with_half_accumulated_gradients_is_not_saved(tmp_path):
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = MicroSteps().run(tmp_path / "truth")
    MicroSteps().run(tmp_path / "line", stop_at=6)  # one micro-batch into the third group
    assert steps_on(tmp_path / "line") == [6]
    assert same(MicroSteps().run(tmp_path / "line"), truth)


def test_a_periodic_save_that_falls_on_half_accumulated_gradients_waits_for_the_next_good_boundary(tmp_path):
    MicroSteps().run(tmp_path, every=4, kill_at=11)
    assert steps_on(tmp_path) == [6]


class TakingTurns(Loop):
    """Two optimizers that step alternately and leave their gradients lying about."""

    def __init__(self) -> None:
        super().__init__()
        first, last = self.model[0], self.model[3]
        self.optimizer = {"a": torch.optim.Adam(first.parameters()), "b": torch.optim.Adam(last.parameters())}

    def body(self, step: int) -> None:
        chosen = self.optimizer["a" if step % 2 else "b"]
        chosen.zero_grad()
        x = torch.randn(6, 4)
        loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
        parameters = chosen.param_groups[0]["params"]
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        chosen.step()


def test_gradients_left_over_from_another_optimizers_last_step_do_not_keep_a_boundary_from_being_saved(tmp_path):
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = TakingTurns().run(tmp_path / "truth")
    TakingTurns().run(tmp_path / "line", every=1, kill_at=7)
    assert max(steps_on(tmp_path / "line")) == 7
    assert same(TakingTurns().run(tmp_path / "line"), truth)


class ByHand(Loop):
    """No hook fires: the optimizer's `step` was replaced by something that writes through `.data`."""

    def __init__(self) -> None:
        super().__init__()
        self.optimizer.step = self.update

    def update(self) -> None:
        for parameter in self.model.parameters():
            parameter.data -= 0.1 * parameter.grad


def test_an_optimizer_that_never_fires_the_gate_is_saved_at_boundaries_only(tmp_path):
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = ByHand().run(tmp_path / "truth")
    ByHand().run(tmp_path / "line", stop_at=5)
    assert steps_on(tmp_path / "line") == [6]
    assert same(ByHand().run(tmp_path / "line"), truth)


def test_clean_is_believed_only_of_optimizers_that_were_seen_at_the_gate():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = Program(model=model, optimizer=optimizer)
    boundary = program.capture(5)
    assert not program.untouched_since(boundary)
    program.update_begins(optimizer)
    assert program.untouched_since(boundary)
    with torch.no_grad():
        model.weight += 1
    assert not program.untouched_since(boundary)


def test_a_second_model_as_a_moving_average_comes_back_exactly(tmp_path):
    class Averaged(Loop):
        def __init__(self) -> None:
            super().__init__()
            self.average = copy.deepcopy(self.model)
            self.subjects = {"model": {"live": self.model, "average": self.average}}

        def body(self, step: int) -> None:
            super().body(step)
            with torch.no_grad():
                for ours, live in zip(self.average.parameters(), self.model.parameters(), strict=True):
                    ours.lerp_(live, 0.1)

    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    whole = Averaged()
    whole.run(tmp_path / "truth")
    Averaged().run(tmp_path / "line", stop_at=4)
    resumed = Averaged()
    resumed.run(tmp_path / "line")
    assert same(resumed.average.state_dict(), whole.average.state_dict())


def test_a_gradient_scalers_state_is_captured_and_restored(tmp_path):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)

    class Scaled(Loop):
        def __init__(self, scaler: Any) -> None:
            super().__init__()
            self.scaler = scaler
            self.subjects = {"scaler": scaler}

        def body(self, step: int) -> None:
            self.optimizer.zero_grad()
            x = torch.randn(6, 4)
            self.scaler.scale(self.model(x).square().mean()).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

    Scaled(scaler).run(tmp_path, every=2, total=8, kill_at=5)
    other = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=2)
    Scaled(other).run(tmp_path, total=8)
    straight = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    (tmp_path / "truth").mkdir()
    Scaled(straight).run(tmp_path / "truth", total=8)
    assert other.state_dict() == straight.state_dict()
    assert other.get_scale() > 1024


def test_data_without_a_position_is_refused_with_the_way_out():
    with pytest.raises(Refusal, match=r"app\.data\.Batches"):
        session(total_steps=1, data=[1, 2, 3], start=object())  # type: ignore[arg-type]


def test_a_state_that_cannot_be_saved_is_refused_before_the_first_step(tmp_path):
    class Odd:
        def state_dict(self) -> dict[str, Any]:
            return {"lock": Path("x")}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...

    with pytest.raises(TypeError, match="extra/lock"), session(total_steps=1, extra=Odd(), start=begin(tmp_path)):
        pass


def test_a_loop_left_early_is_not_marked_as_complete(tmp_path, capfd):
    with session(total_steps=5, start=begin(tmp_path)) as run:
        for step in run.steps():
            if step == 2:
                break
    assert not (tmp_path / "job-task-0/done.json").exists()
    assert "not marked as complete" in capfd.readouterr().out


def test_watch_in_a_dirty_step_says_where_evaluation_belongs(tmp_path, capfd):
    loop = Loop()

    def evaluate(run: Run) -> list[int]:
        return list(run.watch(range(3)))

    with session(total_steps=3, model=loop.model, optimizer=loop.optimizer, start=begin(tmp_path)) as run:
        for step in run.steps():
            assert evaluate(run) == [0, 1, 2]
            assert "top of the loop body" not in capfd.readouterr().out
            loop.body(step)
        assert run.shard == (0, 1)
    with session(total_steps=5, model=loop.model, optimizer=loop.optimizer, start=begin(tmp_path)) as run:
        for step in run.steps():
            loop.body(step)
            evaluate(run)
    assert capfd.readouterr().out.count("top of the loop body") == 1


def test_the_last_two_verified_checkpoints_stay_through_every_save(tmp_path):
    seen: list[list[int]] = []
    with session(total_steps=9, every_steps=1, keep=2, start=begin(tmp_path)) as run:
        for _ in run.steps():
            if (tmp_path / "job-task-0/checkpoints").exists():
                seen.append(steps_on(tmp_path))
    assert steps_on(tmp_path) == [8, 9]
    assert all(len(present) >= 2 for present in seen[2:])


def test_the_loader_draws_nothing_from_the_global_generator_and_finds_its_place_in_any_epoch():
    from app.data import Batches

    def batches() -> Batches:
        return Batches(torch.utils.data.DataLoader(torch.arange(10), batch_size=3, shuffle=True), seed=4)

    whole = batches()
    before = torch.get_rng_state()
    drawn = [next(whole).tolist() for _ in range(12)]
    assert torch.equal(before, torch.get_rng_state())
    assert sorted(item for batch in drawn[:4] for item in batch) == list(range(10))
    assert drawn[:4] != drawn[4:8]
    for position in range(12):
        first = batches()
        for _ in range(position):
            next(first)
        second = batches()
        second.load_state_dict(first.state_dict())
        assert [next(second).tolist() for _ in range(12 - position)] == drawn[position:]


def test_an_empty_loader_is_an_error_rather_than_an_endless_loop():
    from app.data import Batches

    empty = Batches(torch.utils.data.DataLoader(torch.arange(2), batch_size=3, drop_last=True))
    with pytest.raises(ValueError, match="no batches"):
        next(empty)
