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
from app.checkpoint.directory import DirectoryStore
from app.contract import Refusal, Task
from app.loop.program import Program
from app.loop.run import Run
from app.loop.staging import Staging
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
        self,
        root: Path,
        total: int = 12,
        *,
        every: int = 100,
        stop_at: int | None = None,
        stop_on: threading.Event | None = None,
        kill_at: int | None = None,
    ) -> dict[str, torch.Tensor] | None:
        """Returns the weights. A stop comes after the body of `stop_at` or on the event, a kill before `kill_at`."""
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

        if stop_at is None and stop_on is None:
            try:
                attempt()
            except Interrupted:
                return None
        else:
            thread = threading.Thread(target=attempt, daemon=True)
            thread.start()
            if stop_on is not None:
                assert stop_on.wait(120)
                shutdown.request()
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


def test_a_stop_in_the_middle_of_an_accumulation_loses_no_gradient(tmp_path):
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = MicroSteps().run(tmp_path / "truth")
    MicroSteps().run(tmp_path / "line", stop_at=6)  # one micro-batch into the third group
    assert steps_on(tmp_path / "line") in ([6], [7])  # the boundary before the stop, or the next if it comes at once
    assert same(MicroSteps().run(tmp_path / "line"), truth)


def test_half_accumulated_gradients_are_part_of_the_state(tmp_path):
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = MicroSteps().run(tmp_path / "truth")
    MicroSteps().run(tmp_path / "line", every=4, kill_at=11)
    assert steps_on(tmp_path / "line") == [4, 8]  # one and two micro-batches into a group
    assert same(MicroSteps().run(tmp_path / "line"), truth)


class Delayed(Loop):
    """Each update uses the gradients of the step before."""

    def body(self, step: int) -> None:
        if step:
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.backward()


def test_gradients_that_the_next_step_will_use_come_back_with_the_weights(tmp_path):
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = Delayed().run(tmp_path / "truth")
    Delayed().run(tmp_path / "line", every=5, kill_at=8)
    resumed = Delayed()
    resumed.backward()  # gradients of its own, which the checkpoint does not know
    assert same(resumed.run(tmp_path / "line"), truth)


class Unused(Loop):
    """A second optimizer's parameters get gradients that it never uses, some of them zero."""

    def __init__(self) -> None:
        super().__init__()
        first, last = self.model[0], self.model[3]
        self.optimizer = {"a": torch.optim.Adam(first.parameters()), "b": torch.optim.Adam(last.parameters())}

    def body(self, step: int) -> None:
        self.backward()
        self.optimizer["a"].step()
        self.optimizer["a"].zero_grad(set_to_none=step % 2 == 0)
        if step == 10:
            self.optimizer["b"].step()


def test_an_optimizer_that_does_not_use_its_gradients_keeps_nothing_from_being_saved(tmp_path):
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = Unused().run(tmp_path / "truth")
    Unused().run(tmp_path / "line", every=1, kill_at=6)
    assert max(steps_on(tmp_path / "line")) == 6
    Unused().run(tmp_path / "line", stop_at=8)
    assert max(steps_on(tmp_path / "line")) == 9
    assert same(Unused().run(tmp_path / "line"), truth)


def test_a_stop_is_heard_though_gradients_were_there_before_the_session(tmp_path):
    loop = Loop()
    loop.backward()
    loop.run(tmp_path, stop_at=7)
    assert steps_on(tmp_path) == [8]


def test_what_is_drawn_before_the_first_step_does_not_move_the_generators_of_a_resumed_run(tmp_path):
    def run(root: Path, total: int) -> dict[str, torch.Tensor]:
        loop = Loop()
        subjects: dict[str, Any] = {"model": loop.model, "optimizer": loop.optimizer}
        with session(total_steps=total, start=begin(root), shutdown=Shutdown(), **subjects) as run:
            torch.rand(3)  # as iter(loader) does
            for step in run.steps():
                loop.body(step)
        return loop.model.state_dict()

    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    truth = run(tmp_path / "truth", 8)
    run(tmp_path / "line", 5)
    assert same(run(tmp_path / "line", 8), truth)


class AveragedFirst(Loop):
    """A moving average changes by hand at the top of each step, perhaps while the boundary before is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.average = copy.deepcopy(self.model)
        self.subjects = {"model": {"live": self.model, "average": self.average}}
        self.during: dict[str, threading.Event] = {}

    def average_now(self) -> None:
        with torch.no_grad():
            for ours, live in zip(self.average.parameters(), self.model.parameters(), strict=True):
                ours.lerp_(live, 0.1)

    def body(self, step: int) -> None:
        if step == 5 and self.during:
            self.during["stop"].set()
            assert self.during["writing"].wait(30)
        self.average_now()
        if step == 5 and self.during:
            self.during["changed"].set()
        super().body(step)


def test_parameters_changed_by_hand_while_the_last_boundary_is_saved_call_that_save_off(tmp_path, monkeypatch, capfd):
    for name in ("truth", "line"):
        (tmp_path / name).mkdir()
    whole = AveragedFirst()
    whole.run(tmp_path / "truth")
    stopped = AveragedFirst()
    stopped.during = {name: threading.Event() for name in ("stop", "writing", "changed")}
    create = DirectoryStore.create

    def slow(self: DirectoryStore, name: str, chunks: Any) -> int:
        if name.startswith("shards"):
            stopped.during["writing"].set()
            assert stopped.during["changed"].wait(30)
        return create(self, name, chunks)

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "create", slow)
        stopped.run(tmp_path / "line", stop_on=stopped.during["stop"])
    assert "that save is given up" in capfd.readouterr().out
    assert steps_on(tmp_path / "line") == [6]
    resumed = AveragedFirst()
    resumed.run(tmp_path / "line")
    assert same(resumed.model.state_dict(), whole.model.state_dict())
    assert same(resumed.average.state_dict(), whole.average.state_dict())


def test_a_save_that_fails_at_a_stop_is_tried_again_in_the_time_that_is_left(tmp_path, monkeypatch):
    create, failures = DirectoryStore.create, [3]

    def flaky(self: DirectoryStore, name: str, chunks: Any) -> int:
        if name.startswith("shards") and failures[0]:
            failures[0] -= 1
            raise OSError(5, "Input/output error")
        return create(self, name, chunks)

    monkeypatch.setattr(DirectoryStore, "create", flaky)
    Loop().run(tmp_path, stop_at=5)
    assert (failures, steps_on(tmp_path)) == ([0], [6])


def test_no_memory_for_a_copy_is_a_failed_save_and_no_end(tmp_path, monkeypatch, capfd):
    views, failures = Staging.views, [1]

    def short_of_memory(self: Staging, values: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            raise MemoryError("no room")
        return views(self, values)

    monkeypatch.setattr(Staging, "views", short_of_memory)
    monkeypatch.setattr("app.loop.interval.FIRST_AGAIN_S", 0.0)
    Loop().run(tmp_path, every=4, total=8)
    assert "Saving step 4 failed" in capfd.readouterr().out
    assert 5 in steps_on(tmp_path)


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


@pytest.mark.parametrize("kind", ["batch sampler", "set_epoch"])
def test_any_sampler_gives_the_same_order_again(kind):
    from app.data import Batches

    class Epochs(torch.utils.data.Sampler[int]):
        """As torch's DistributedSampler: the order depends on the epoch that it is told."""

        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __len__(self) -> int:
            return 6

        def __iter__(self):
            return iter([(index * (self.epoch + 1)) % 7 - 1 for index in range(1, 7)])

    def batches() -> Batches:
        of = torch.arange(6)
        if kind == "set_epoch":
            return Batches(torch.utils.data.DataLoader(of, batch_size=2, sampler=Epochs()), seed=4)
        sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(of), 2, drop_last=False)
        return Batches(torch.utils.data.DataLoader(of, batch_sampler=sampler), seed=4)

    first, whole = batches(), batches()
    drawn = [next(whole).tolist() for _ in range(9)]
    assert drawn[:3] != drawn[3:6]
    for _ in range(5):
        next(first)
    second = batches()
    second.load_state_dict(first.state_dict())
    assert [next(second).tolist() for _ in range(4)] == drawn[5:]


def test_a_loader_whose_position_cannot_be_found_again_is_refused():
    from app.data import Batches

    data = torch.arange(8)
    with pytest.raises(Refusal, match="persistent_workers=False"):
        Batches(torch.utils.data.DataLoader(data, num_workers=1, persistent_workers=True))
    position = Batches(torch.utils.data.DataLoader(data)).state_dict()
    with pytest.raises(Refusal, match="gives 5 batches an epoch, and gave 8"):
        Batches(torch.utils.data.DataLoader(data[:5])).load_state_dict(position)
