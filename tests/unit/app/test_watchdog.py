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
            dog.step()
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
        dog.step()
        now[0] = AT_LEAST_S
        assert dog.hung_for_s() is None
        now[0] += 1
        assert dog.hung_for_s() is not None

    def test_what_a_step_watches_is_a_sign_of_life_and_no_step(self):
        """A thousand quick batches of an evaluation once made a step of a quarter of an hour look like a hang."""
        now = [0.0]
        dog = Watchdog(Shutdown(), clock=lambda: now[0])
        for _ in range(3):
            dog.step()
            for _ in range(200):
                now[0] += 0.1
                dog.alive()
            now[0] += 880
        dog.stop()
        assert round(dog.median_step_s) == 900
        assert dog.hung_for_s() is None
        now[0] += 10 * 900
        assert dog.hung_for_s() is not None
