"""What a session is given, captures and gives back, with the training loops people really write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from app import session
from app.checkpoint import codec
from app.contract import Refusal
from app.loop.run import Run
from app.shutdown import Shutdown
from tests.engine.log_lines import lines
from tests.engine.loops import Averaging, Loop, begin, same, steps_on


def test_what_is_drawn_before_the_first_step_does_not_move_the_generators_of_a_resumed_run(tmp_path):
    def run(root: Path, total: int) -> dict[str, torch.Tensor]:
        loop = Loop()
        subjects: dict[str, Any] = {"model": loop.model, "optimizer": loop.optimizer}
        with session(total_steps=total, start=begin(root), shutdown=Shutdown(), **subjects) as run:
            torch.rand(3)  # as iter(loader) does
            for step in run.steps():
                loop.body(step)
        return loop.model.state_dict()

    truth = run(tmp_path / "truth", 8)
    run(tmp_path / "line", 5)
    assert same(run(tmp_path / "line", 8), truth)


def test_a_second_model_as_a_moving_average_comes_back_exactly(tmp_path):
    class Averaged(Averaging):
        def body(self, step: int) -> None:
            super().body(step)
            self.average_now()

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

    refused = pytest.raises(Refusal, match=r"No checkpoint could be made of this program\. extra/lock: ")
    with refused as refusal, session(total_steps=1, extra=Odd(), start=begin(tmp_path)):
        pass
    assert refusal.value.exit_code == 78
    assert isinstance(refusal.value.__cause__, codec.Unsavable)


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


def test_the_resume_line_says_how_many_steps_an_attempt_lost_that_could_tell_where_it_ended(
    tmp_path, capfd, monkeypatch
):
    monkeypatch.setenv("CLOUD_RUN_JOB", "job")
    Loop().run(tmp_path, every=4, kill_at=7)  # an error: the ledger knows the step
    Loop().run(tmp_path, total=8)
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines() if '"lost_steps"' in line]
    assert [(line["step"], line["lost_steps"]) for line in lines] == [(4, 3)]


@pytest.mark.parametrize("wrong", [{"snapshot": "lazy"}, {"snapshot": "direct"}, {"keep_every": 0}])
def test_a_way_to_save_that_does_not_exist_is_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        session(total_steps=1, **wrong)


@pytest.mark.parametrize("name", ["total_steps", "every_steps", "keep", "keep_every", "log_every"])
@pytest.mark.parametrize("wrong", [10.0, 2.5, float("nan"), "10"])
def test_a_count_that_is_no_whole_number_is_refused_before_any_work_is_done(tmp_path, name, wrong):
    with pytest.raises(ValueError, match=f"{name} is .* must be a whole number"):
        session(start=begin(tmp_path), **{"total_steps": 4, name: wrong})


@pytest.mark.parametrize("kind", [np.int64, torch.tensor])
def test_counts_may_be_whole_numbers_of_numpy_and_torch(tmp_path, kind):
    counts = {"total_steps": kind(5), "every_steps": kind(2), "keep": kind(2), "keep_every": kind(4)}
    with session(start=begin(tmp_path), **counts) as run:
        list(run.steps())
    assert json.loads((tmp_path / "job-task-0/done.json").read_text())["total_steps"] == 5
    assert steps_on(tmp_path) == [4, 5]


def test_a_second_loop_through_the_steps_is_refused_before_it_does_one_again(tmp_path):
    loop, done = Loop(), list[int]()
    with session(total_steps=6, model=loop.model, optimizer=loop.optimizer, start=begin(tmp_path)) as run:
        for step in run.steps():
            loop.body(step)
            done.append(step)
            if step == 3:
                break
        with pytest.raises(RuntimeError, match="once in a session"):
            done.extend(run.steps())
    assert done == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["nowhere", "in extra", "in a model"])
def test_a_parameter_that_is_updated_and_not_saved_is_told(tmp_path, capfd, where):
    class Extra:
        def state_dict(self) -> dict[str, Any]:
            return {"loose": loose}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            loose.data.copy_(state["loose"])

    loop = Loop()
    holder = torch.nn.ParameterList([torch.ones(4)])
    (loose,) = holder
    optimizer = torch.optim.SGD([*loop.model.parameters(), loose], lr=0.1)
    models = {"net": loop.model, **({"holder": holder} if where == "in a model" else {})}
    extra = Extra() if where == "in extra" else None
    with session(total_steps=2, model=models, optimizer=optimizer, extra=extra, start=begin(tmp_path)) as run:
        for _ in run.steps():
            pass
    told = "The optimizer updates optimizer.6, of which no model" in capfd.readouterr().out
    assert told is (where == "nowhere")


@pytest.mark.usefixtures("fields_in_the_log")
def test_step_lines_say_what_is_at_risk(root, capfd):
    loop = Loop()
    subjects: dict[str, Any] = {"model": loop.model, "optimizer": loop.optimizer}
    with session(total_steps=5, every_steps=100, start=begin(root), shutdown=Shutdown(), **subjects) as run:
        for step in run.steps():
            loop.body(step)
            run.log(loss=1.0)
    points = [line for line in lines(capfd.readouterr().out) if "loss" in line]
    assert [line["at_risk_steps"] for line in points] == [1, 2, 3, 4, 5]
    assert all(line["at_risk_s"] >= 0 for line in points)


@pytest.mark.usefixtures("fields_in_the_log")
def test_a_line_after_the_loop_is_of_the_last_step_and_of_none_that_was_never_done(root, capfd):
    with session(total_steps=3, every_steps=100, start=begin(root), shutdown=Shutdown()) as run:
        for _ in run.steps():
            run.log(loss=1.0)
        run.log(accuracy=0.9)
    (after,) = [line for line in lines(capfd.readouterr().out) if "accuracy" in line]
    assert (after["step"], after["at_risk_steps"], after["message"][:8]) == (3, 0, "step 3/3")


def test_a_checkpoint_of_another_model_is_refused_and_both_sides_are_named(tmp_path):
    with session(total_steps=1, model=torch.nn.Linear(2, 2), start=begin(tmp_path)) as run:
        list(run.steps())
    other = session(total_steps=9, model=torch.nn.Linear(2, 3), start=begin(tmp_path))
    with pytest.raises(Refusal) as refusal, other:
        pass
    assert refusal.value.exit_code == 78
    assert "6 values" in str(refusal.value)
    assert "9 values" in str(refusal.value)
    assert "--fork" in str(refusal.value)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("total", [12, 20])
def test_work_that_was_finished_early_is_not_gone_on_with_unless_more_is_asked_for(tmp_path, total, leaves):
    def train(total: int) -> tuple[Loop, list[int]]:
        loop, done = Loop(), list[int]()
        with session(
            total_steps=total, start=begin(tmp_path), model=loop.model, optimizer=loop.optimizer, every_steps=2
        ) as run:
            for step in run.steps():
                loop.body(step)
                done.append(step)
                if step >= 4:
                    run.finish_early()
                    if leaves:
                        break
        return loop, done

    first, _ = train(12)
    again, done = train(total)
    assert done == ([] if total == 12 else [5])
    assert same(again.model.state_dict(), first.model.state_dict()) == (total == 12)


class Counted:
    """Data that is its position."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self) -> int:
        self.at += 1
        return self.at

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


@pytest.mark.parametrize("ahead", [True, False])
def test_data_that_is_fetched_before_the_step_that_uses_it_is_warned_of(tmp_path, capfd, ahead):
    data = Counted()
    next(data)  # before the session, a position comes back all the same
    with session(total_steps=3, start=begin(tmp_path), data=data) as run:
        if ahead:
            assert [step for _, step in zip(data, run.steps(), strict=False)] == [0, 1, 2]
        else:
            assert [next(data) for _ in run.steps()] == [2, 3, 4]
    assert ("Fetch each step's data in its body" in capfd.readouterr().out) == ahead
