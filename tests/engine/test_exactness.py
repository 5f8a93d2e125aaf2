"""An interrupted run ends with the weights of an uninterrupted one, bit by bit."""

from __future__ import annotations

import pytest

from tests.engine.harness import STEPS, Trial, reference, run_until_interrupted, run_until_stopped


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> str:
    return reference(tmp_path_factory.mktemp("truth") / "line")


def finish(trial: Trial) -> str:
    Trial(trial.root, every_steps=trial.every_steps, workers=trial.workers, fused=trial.fused).run()
    return str(trial.done()["weights_sha256"])


@pytest.mark.parametrize("step", range(1, 21))
def test_killed_in_any_step_it_resumes_from_the_last_save_and_ends_the_same(tmp_path, truth, step):
    trial = Trial(tmp_path, every_steps=3)
    run_until_interrupted(trial, "stepped", step)
    assert finish(trial) == truth
    assert trial.ledger()[1]["resumed_from_step"] == (step // 3 * 3 or None)


@pytest.mark.parametrize("step", range(1, 21))
@pytest.mark.parametrize("place", ["began", "backward"])
def test_stopped_in_a_clean_step_it_saves_the_last_boundary(tmp_path, truth, step, place):
    trial = Trial(tmp_path, every_steps=100)
    assert run_until_stopped(trial, place, step) == 143
    assert finish(trial) == truth
    stopped, resumed = trial.ledger()
    assert (stopped["reason"], stopped["exit_code"]) == ("stopped", 143)
    assert resumed["resumed_from_step"] == step


@pytest.mark.parametrize("step", range(1, 21))
@pytest.mark.parametrize("place", ["updated", "stepped", "ended"])
def test_stopped_in_a_dirty_step_it_waits_for_the_next_boundary(tmp_path, truth, step, place):
    trial = Trial(tmp_path, every_steps=100)
    assert run_until_stopped(trial, place, step) == 143
    assert finish(trial) == truth
    assert trial.ledger()[1]["resumed_from_step"] == step + 1


def test_several_stops_and_kills_in_a_row_change_nothing(tmp_path, truth):
    trial = Trial(tmp_path, every_steps=4)
    run_until_stopped(Trial(tmp_path, every_steps=4), "backward", 3)
    run_until_interrupted(Trial(tmp_path, every_steps=4), "updated", 9)
    run_until_stopped(Trial(tmp_path, every_steps=4), "updated", 13)
    run_until_interrupted(Trial(tmp_path, every_steps=4), "began", 23)
    assert finish(trial) == truth
    assert [record["epoch"] for record in trial.ledger()] == [1, 2, 3, 4, 5]


def test_a_fused_optimizer_which_hides_its_changes_is_exact_too(tmp_path):
    truth = reference(tmp_path / "truth", fused=True)
    for place, step in [("backward", 5), ("updated", 11)]:
        run_until_stopped(Trial(tmp_path, every_steps=100, fused=True), place, step)
    assert finish(Trial(tmp_path, fused=True)) == truth


def test_data_workers_are_brought_back_to_where_they_were(tmp_path):
    truth = reference(tmp_path / "truth", workers=2, steps=8)
    trial = Trial(tmp_path, every_steps=100, workers=2, steps=8)
    trial.every_steps = 3
    run_until_interrupted(trial, "backward", 6)
    Trial(tmp_path, workers=2, steps=8).run()
    assert trial.done()["weights_sha256"] == truth


def test_a_stop_in_the_first_step_of_a_fresh_line_saves_nothing_and_ends_at_once(tmp_path):
    trial = Trial(tmp_path)
    assert run_until_stopped(trial, "backward", 0) == 143
    assert not (trial.line / "checkpoints").exists()


def test_a_stop_in_the_last_step_finishes_the_work_and_exits_0(tmp_path, truth):
    trial = Trial(tmp_path)
    assert run_until_stopped(trial, "updated", STEPS - 1) == 0
    assert trial.done()["weights_sha256"] == truth
    assert trial.ledger()[0]["reason"] == "finished"
