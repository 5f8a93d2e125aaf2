"""The stop: heard at once, decided by a session, and an end whatever hangs."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from app.contract import Reason
from app.shutdown import Shutdown


def until_gone(pid: int) -> None:
    """It got SIGKILL, or is about to be buried by whoever adopted it."""
    deadline = time.monotonic() + 10
    with suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < deadline, f"process {pid} is still there"
            time.sleep(0.01)


def is_joining(thread: threading.Thread) -> bool:
    """Whether it waits for another one."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_name != "join":
        frame = frame.f_back
    return frame is not None


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

    def test_a_stop_while_a_finaliser_hangs_cuts_the_wait_for_it_short(self):
        shutdown, codes = self.shutdown()
        left = threading.Event()
        shutdown.on_stop = lambda: None

        def hanging(_code: int, _reason: Reason) -> None:
            while not is_joining(threading.main_thread()):
                time.sleep(0.001)
            shutdown.request()
            left.wait(60)

        shutdown.before_leaving(hanging)
        began = time.monotonic()
        with pytest.raises(SystemExit):
            shutdown.leave(70, Reason.FAILED)
        left.set()
        assert codes == [70]
        assert time.monotonic() - began < 9  # of the 30 s that it has without a stop

    def test_where_no_thread_can_be_started_a_stop_is_acted_on_and_the_process_leaves(self, monkeypatch):
        """A limit of processes. The lock of a leave that failed would keep every later one for ever."""
        shutdown, codes = self.shutdown()
        happened: list[str] = []
        shutdown.on_stop = lambda: happened.append("asked to save")
        shutdown.before_leaving(lambda _code, reason: happened.append(f"closed: {reason}"))

        def refused(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refused)
        shutdown.request()
        with pytest.raises(SystemExit):
            shutdown.leave(143, Reason.STOPPED)
        assert (happened, codes) == (["asked to save", "closed: stopped"], [143])

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
