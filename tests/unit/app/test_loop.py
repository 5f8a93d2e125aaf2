"""The gate, the interval, the watchdog and the stop, each by itself and without torch."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from app.clock import Clock
from app.contract import Reason
from app.loop import handoff
from app.loop.gate import Gate, Phase
from app.loop.interval import AtRisk, EverySteps, Schedule
from app.shutdown import Shutdown
from app.watchdog import AT_LEAST_S, Watchdog


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


def until_gone(pid: int) -> None:
    """It got SIGKILL, or is about to be buried by whoever adopted it."""
    deadline = time.monotonic() + 10
    with suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < deadline, f"process {pid} is still there"
            time.sleep(0.01)


class TestShutdown:
    def shutdown(self) -> tuple[Shutdown, list[int]]:
        codes: list[int] = []

        def exit_process(code: int):
            codes.append(code)
            if threading.current_thread() is not threading.main_thread():
                threading.Event().wait()  # the deadline's thread: a process that has left does nothing more
            raise SystemExit(code)

        return Shutdown(exit_process=exit_process, end_children=lambda: None), codes

    def test_before_a_session_takes_over_a_stop_leaves_at_once_with_143(self, capfd):
        shutdown, codes = self.shutdown()
        with pytest.raises(SystemExit):
            shutdown.request()
        assert codes == [143]
        assert "Received SIGTERM signal from platform. Initiating graceful shutdown..." in capfd.readouterr().out

    def test_a_session_that_took_over_decides(self):
        shutdown, codes = self.shutdown()
        asked: list[str] = []
        shutdown.on_stop = lambda: asked.append("stop")
        shutdown.request()
        shutdown.request()
        assert (asked, codes) == (["stop"], [])
        assert 8 < shutdown.remaining_s() < 10

    def test_what_must_be_closed_is_closed_last_opened_first_whatever_one_of_them_raises(self):
        shutdown, codes = self.shutdown()
        closed: list[str] = []
        shutdown.before_leaving(lambda code, reason: closed.append(f"ledger {code} {reason}"))
        shutdown.before_leaving(lambda _code, _reason: 1 / 0)
        shutdown.before_leaving(lambda _code, _reason: closed.append("events"))
        with pytest.raises(SystemExit):
            shutdown.leave(75, Reason.HANDED_OFF)
        assert (closed, codes) == (["events", "ledger 75 handed-off"], [75])

    def test_a_finaliser_that_hangs_does_not_keep_the_process(self):
        shutdown, codes = self.shutdown()
        shutdown.on_stop = lambda: None
        shutdown.request()
        shutdown.before_leaving(lambda _code, _reason: threading.Event().wait(60))
        with pytest.raises(SystemExit):
            shutdown.leave(143, Reason.STOPPED)
        assert codes == [143]

    def test_nobody_reading_the_log_does_not_keep_a_stopped_process(self):
        program = """
import os, select, threading, time
from app import logs, shutdown
s = shutdown.process = shutdown.Shutdown(grace_s=1.3)
s.install()
s.on_stop = lambda: logs.info("x" * 70000)
writer = threading.Thread(target=lambda: [logs.info("y" * 1000) for _ in range(10**6)], daemon=True)
writer.start()
while select.select([], [1], [], 0)[1]:
    time.sleep(0.001)
os.kill(os.getpid(), 15)
time.sleep(60)
"""
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            assert process.wait(30) == 143

    def test_a_thread_is_told_that_signals_are_taken_over_in_the_main_thread(self):
        told: list[BaseException] = []

        def install() -> None:
            try:
                Shutdown().install()
            except RuntimeError as error:
                told.append(error)

        thread = threading.Thread(target=install)
        thread.start()
        thread.join()
        assert "in the main thread only" in str(told[0])

    def test_signals_are_taken_back_and_forked_children_do_not_announce_theirs(self):
        program = """
import os, select, signal, threading, time
from app import shutdown
s = shutdown.process
watch, shutdown.Shutdown._watch = shutdown.Shutdown._watch, lambda self: None  # reads nothing for now
s.install()
assert not s.rearm()
signal.set_wakeup_fd(-1)
assert s.rearm() and not s.rearm()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
assert s.rearm()
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
assert not select.select([s._read_fd], [], [], 0)[0]  # nothing came through the shared descriptor
threading.Thread(target=watch, args=(s,), daemon=True).start()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
        assert ended.returncode == 143, ended.stderr

    def test_children_do_not_outlive_the_process(self):
        program = """
import subprocess, sys
from app import shutdown
grandchild = "import subprocess; subprocess.Popen(['sleep', '300']).wait()"
p = subprocess.Popen([sys.executable, "-c", grandchild])
import time
from pathlib import Path
deadline = time.monotonic() + 20
while not (children := Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()):
    assert time.monotonic() < deadline
    time.sleep(0.01)
print(p.pid, *children, flush=True)
shutdown.process.leave(143, "stopped")
"""
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=False)
        assert ended.returncode == 143, ended.stderr
        for pid in ended.stdout.split():
            until_gone(int(pid))


def test_nothing_heavy_is_imported_before_the_handlers():
    program = "import sys; import app.shutdown; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, '.'); {program}"],
                            capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
    assert {"torch", "numpy", "logging", "json", "pathlib", "argparse"} & set(loaded) == set()
