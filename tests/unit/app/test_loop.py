"""The gate, the interval, the watchdog and the stop, each by itself and without torch."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from app.loop.gate import Gate
from app.loop.interval import AtRisk, EverySteps
from app.shutdown import Shutdown
from app.watchdog import AT_LEAST_S, Watchdog


def held(action) -> threading.Thread:
    """Runs `action` in a thread which must not come back."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(timeout=0.1)
    assert thread.is_alive()
    return thread


class TestGate:
    def test_closed_in_a_clean_step_the_last_boundary_is_settled_at_once_and_the_update_is_held(self):
        gate: Gate[int] = Gate(lambda _boundary: True)
        gate.pass_boundary(7)
        gate.close()
        assert gate.settled(0) == 7
        held(gate.enter_update)

    def test_closed_in_a_dirty_step_the_next_boundary_is_waited_for_and_held(self):
        gate: Gate[int] = Gate(lambda _boundary: True)
        gate.pass_boundary(7)
        gate.enter_update()
        gate.close()
        assert gate.settled(0) is None
        held(lambda: gate.pass_boundary(8))
        assert gate.settled(0) == 8

    def test_a_clean_step_that_is_not_proven_is_treated_as_dirty(self):
        gate: Gate[int] = Gate(lambda _boundary: False)
        gate.pass_boundary(7)
        gate.close()
        assert gate.settled(0) is None
        gate.enter_update()  # is let through
        held(lambda: gate.pass_boundary(8))
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
            shutdown.leave(75, "handed-off")
        assert (closed, codes) == (["events", "ledger 75 handed-off"], [75])

    def test_a_finaliser_that_hangs_does_not_keep_the_process(self):
        shutdown, codes = self.shutdown()
        shutdown.on_stop = lambda: None
        shutdown.request()
        shutdown.before_leaving(lambda _code, _reason: threading.Event().wait(60))
        with pytest.raises(SystemExit):
            shutdown.leave(143, "stopped")
        assert codes == [143]

    def test_signals_are_taken_back_and_forked_children_do_not_announce_theirs(self):
        program = """
import os, signal, time
from app import shutdown
s = shutdown.process
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
time.sleep(0.1)
assert not s.noticed.is_set()
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
