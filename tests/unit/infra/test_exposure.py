"""Worst case and expected cost: exact where arithmetic is exact, within its promise where it is drawn."""

from dataclasses import replace

import pytest

from infra.accelerators import CATALOGUE
from infra.cost_line import cost_line
from infra.exposure import expected_case, worst_case
from infra.rules import parse

HOUR = 3600


def expected(**changes):
    defaults = {
        "work_h": 24,
        "interruptions_per_day": 1,
        "timeout_s": 12 * HOUR,
        "max_retries": 3,
        "tasks": 1,
        "usd_per_hour": 2.0,
        "restart_s": 360,
        "lost_s": 360,
    }
    return expected_case(**{**defaults, **changes})


def test_the_worst_case_is_every_attempt_of_every_task_in_full():
    exposure = worst_case(timeout_s=HOUR, max_retries=3, tasks=5, usd_per_hour=2.0)
    assert (exposure.gpu_hours, exposure.usd) == (20, 40.0)


def test_without_interruptions_only_starts_and_hand_overs_cost_more_than_the_work():
    found = expected(interruptions_per_day=0)
    assert (found.gpu_hours, found.usd) == (24.3, 48.6)  # three attempts, 0.1 h before each first step
    assert (found.interruptions, found.finished) == (0, 1)


def test_at_a_low_rate_each_interruption_costs_a_restart_and_what_was_lost():
    found = expected(work_h=240, timeout_s=168 * HOUR, max_retries=10, interruptions_per_day=0.5)
    # One start, one hand-over, and 0.2 h for each of the interruptions that come in ten days.
    assert found.gpu_hours == pytest.approx(240 + 0.2 + 0.2 * found.interruptions, rel=0.02)
    assert found.interruptions == pytest.approx(5, rel=0.05)


def test_more_interruptions_cost_more_and_finish_less_often():
    found = [expected(interruptions_per_day=rate) for rate in (0, 1, 4, 12)]
    assert [f.gpu_hours for f in found] == sorted(f.gpu_hours for f in found)
    assert [f.finished for f in found] == sorted((f.finished for f in found), reverse=True)


def test_tasks_cost_each_their_own_and_all_must_finish():
    one, four = expected(), expected(tasks=4)
    assert four.gpu_hours == pytest.approx(4 * one.gpu_hours, abs=0.05)
    assert four.finished == pytest.approx(one.finished**4, abs=0.01)


def test_equal_arguments_give_equal_answers():
    assert expected() == expected()


def test_a_training_of_a_year_in_short_attempts_is_answered_at_once():
    assert expected(work_h=10_000, timeout_s=600, lost_s=60).gpu_hours > 10_000


def test_an_attempt_that_ends_before_its_first_step_never_ends_a_training():
    with pytest.raises(ValueError, match="ends before its first new step"):
        expected(timeout_s=300)


def test_the_preview_says_what_an_execution_can_cost():
    line = cost_line(parse({}, project="demo-project", region="europe-west4"))
    assert line == (
        "One execution can cost 48 GPU hours, 50.23 USD at worst (timeout 12 h x 4 attempts x 1 task x 1.05 USD/h)."
    )


def test_the_preview_says_what_is_expected_where_it_knows_the_work():
    line = cost_line(parse({"trainingHours": "24"}, project="demo-project", region="europe-west4"))
    assert "24 h of training at 1 interruptions a day: 24." in line
    assert "95% are done within the retries of one execution." in line


def test_an_unknown_price_leaves_hours(monkeypatch):
    unpriced = {name: replace(gpu, gpu_usd_per_s=None) for name, gpu in CATALOGUE.items()}
    monkeypatch.setattr("infra.settings.CATALOGUE", unpriced)
    keys = {"gpuType": "nvidia-rtx-pro-6000", "cpu": "20", "memory": "80Gi", "timeout": "3600s"}
    line = cost_line(parse(keys, project="demo-project", region="europe-west4"))
    assert line == "One execution can cost 4 GPU hours at worst (timeout 1 h x 4 attempts x 1 task)."
