"""When to save, and when to hand off before the timeout."""

from __future__ import annotations

import pytest

from app.clock import Clock
from app.loop import handoff
from app.loop.interval import AtRisk, EverySteps, Schedule


class TestInterval:
    def test_every_so_many_steps(self):
        assert [EverySteps(3).due(steps, 0, 0) for steps in range(5)] == [False, False, False, True, True]

    def test_a_cheap_save_comes_often_but_not_all_the_time(self):
        assert not AtRisk(5).due(1, 9, 0.01)
        assert AtRisk(5).due(1, 10, 0.01)

    def test_a_dear_save_comes_as_the_budget_allows(self):
        assert not AtRisk(5).due(1, 199, 2.0)
        assert AtRisk(5).due(1, 200, 2.0)

    def test_never_more_than_the_minutes_at_risk(self):
        assert AtRisk(5).due(1, 300, 60)

    def test_nothing_is_saved_twice(self):
        assert not AtRisk(5).due(0, 10_000, 0)


class TestSchedule:
    def schedule(self, interval) -> tuple[Schedule, list[float]]:
        now = [0.0]
        return Schedule(interval, Clock(now_s=lambda: now[0]), step=10), now

    def due(self, schedule: Schedule, step: int, failures: int = 0) -> bool:
        return schedule.due(step, save_cost_s=0, failures_in_a_row=failures)

    def test_steps_count_from_where_the_attempt_resumed_and_from_the_last_save(self):
        schedule, _ = self.schedule(EverySteps(3))
        assert [self.due(schedule, step) for step in (11, 12, 13)] == [False, False, True]
        schedule.saving(13)
        assert [self.due(schedule, step) for step in (14, 15, 16)] == [False, False, True]

    @pytest.mark.parametrize(("failures", "pause_s"), [(1, 1), (2, 2), (4, 8), (7, 60), (99, 60)])
    def test_a_failed_save_is_tried_again_after_a_pause_whatever_the_interval(self, failures, pause_s):
        schedule, now = self.schedule(EverySteps(1000))
        schedule.saving(12)
        assert not self.due(schedule, 13, failures)
        now[0] = pause_s - 0.01
        assert not self.due(schedule, 14, failures)
        now[0] = pause_s
        assert self.due(schedule, 15, failures)


class TestHandOff:
    def due(self, elapsed_s: float, timeout_s: float | None = 1000, step_s: float = 20, save_s: float = 30) -> bool:
        return handoff.is_due(elapsed_s=elapsed_s, timeout_s=timeout_s, step_s=step_s, save_s=save_s)

    def test_without_a_timeout_never(self):
        assert not self.due(10**9, timeout_s=None)

    def test_when_two_steps_three_saves_and_some_slack_would_just_fit(self):
        assert not self.due(1000 - 10 - 2 * 20 - 3 * 30)
        assert self.due(1000 - 10 - 2 * 20 - 3 * 30 + 0.1)

    def test_never_in_the_first_half_of_the_time_however_slow_steps_are(self):
        assert not self.due(500, step_s=10_000)
        assert self.due(500.1, step_s=10_000)
