"""The gate between the training loop and the saver."""

from __future__ import annotations

import threading
import time

from app.loop.gate import Gate, Phase


def until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def held(gate: Gate[int], action) -> None:
    """Runs `action` in a thread that the gate must hold: however often it is woken, it waits again."""
    waits, wait = [0], gate._changed.wait

    def counting(timeout: float | None = None) -> bool:
        waits[0] += 1
        return wait(timeout)

    gate._changed.wait = counting
    threading.Thread(target=action, daemon=True).start()
    for times in range(1, 4):
        until(lambda: waits[0] >= times)  # noqa: B023 - called at once
        gate.close()


class TestGate:
    def test_closed_in_a_clean_step_the_last_boundary_is_settled_at_once_and_the_update_is_held(self):
        gate: Gate[int] = Gate(lambda _boundary: True)
        gate.pass_boundary(7)
        gate.close()
        assert gate.settled(0) == 7
        held(gate, gate.enter_update)

    def test_closed_in_a_dirty_step_the_next_boundary_is_waited_for_and_held(self):
        gate: Gate[int] = Gate(lambda _boundary: True)
        gate.pass_boundary(7)
        gate.enter_update()
        gate.close()
        assert gate.settled(0) is None
        held(gate, lambda: gate.pass_boundary(8))
        assert gate.settled(0) == 8

    def test_a_clean_step_that_is_not_proven_is_treated_as_dirty(self):
        gate: Gate[int] = Gate(lambda _boundary: False)
        gate.pass_boundary(7)
        gate.close()
        assert gate.settled(0) is None
        gate.enter_update()  # is let through
        held(gate, lambda: gate.pass_boundary(8))
        assert gate.settled(0) == 8

    def test_what_cannot_be_proven_because_it_changes_meanwhile_is_treated_as_dirty(self):
        def changing(_boundary: int) -> bool:
            raise RuntimeError("dictionary changed size during iteration")

        gate: Gate[int] = Gate(changing)
        gate.pass_boundary(7)
        gate.close()
        assert gate.settled(0) is None
        assert not gate.confirm(7)
        held(gate, lambda: gate.pass_boundary(8))
        assert gate.settled(0) == 8

    def test_before_the_first_boundary_there_is_nothing_to_settle(self):
        gate: Gate[int] = Gate(lambda _boundary: True)
        gate.close()
        assert gate.settled(0) is None

    def test_a_finished_program_is_not_waited_for(self):
        gate: Gate[int] = Gate(lambda _boundary: True)
        gate.pass_boundary(7)
        gate.enter_update()
        gate.finish()
        gate.close()
        assert gate.settled(60) is None
        assert gate.work_is_over

    def test_other_long_loops_are_held_only_once_a_boundary_is_settled(self):
        gate: Gate[int] = Gate(lambda _boundary: True)
        gate.pass_boundary(7)
        gate.wait_if_held()
        gate.close()
        held(gate, gate.wait_if_held)

    def test_a_boundary_that_is_not_there_any_more_when_it_was_written_gives_way_to_the_next(self):
        proven = [True]
        gate: Gate[int] = Gate(lambda _boundary: proven[0])
        gate.pass_boundary(7)
        gate.close()
        assert gate.settled(0) == 7
        proven[0] = False
        assert not gate.confirm(7)
        gate.enter_update()  # is let through
        assert gate.settled(0) is None
        held(gate, lambda: gate.pass_boundary(8))
        assert gate.settled(0) == 8
        assert gate.confirm(8)  # held there: nothing to prove

    def test_a_thread_held_for_a_boundary_that_is_given_up_goes_on(self):
        gate: Gate[int] = Gate(lambda _boundary: not gate.is_holding)
        gate.pass_boundary(7)
        gate.close()
        thread = threading.Thread(target=gate.enter_update, daemon=True)
        thread.start()
        until(lambda: gate.is_holding)
        assert not gate.confirm(7)
        thread.join(30)
        assert not thread.is_alive()

    def test_a_boundary_that_the_thread_has_left_behind_is_proven_by_itself(self):
        gate: Gate[int] = Gate(lambda boundary: gate.phase is Phase.CLEAN and boundary == 7 and not gate.is_holding)
        gate.pass_boundary(7)
        gate.close()
        held(gate, lambda: gate.pass_boundary(8))
        assert not gate.confirm(7)
        assert gate.settled(0) == 8
