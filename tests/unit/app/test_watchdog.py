"""The watchdog: what counts as hung."""

from __future__ import annotations

from app.shutdown import Shutdown
from app.watchdog import AT_LEAST_S, Watchdog


class TestWatchdog:
    def test_ten_times_the_usual_step_and_at_least_ten_minutes(self):
        now = [0.0]
        dog = Watchdog(Shutdown(), clock=lambda: now[0])
        assert dog.hung_for_s() is None
        for _ in range(2):
            dog.beat()
            now[0] += 100
        dog.stop()
        assert dog.median_step_s == 100
        now[0] = 100 + 10 * 100
        assert dog.hung_for_s() is None
        now[0] += 1
        assert dog.hung_for_s() == 1001

    def test_quick_steps_are_given_ten_minutes(self):
        now = [0.0]
        dog = Watchdog(Shutdown(), clock=lambda: now[0])
        dog.beat()
        now[0] = AT_LEAST_S
        assert dog.hung_for_s() is None
        now[0] += 1
        assert dog.hung_for_s() is not None
