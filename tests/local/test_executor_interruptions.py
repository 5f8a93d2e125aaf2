"""What ends a task before its time: maintenance, a lost machine, timeout, cancellation, memory, a dead server."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from localcloud.executor import memory
from localcloud.testing import running_cloud

CATCHES = """
import os, signal, sys, time
def leave(*_):
    os.write(1, b'caught\\n')  # print fails where the signal comes in the middle of another print
    sys.exit(143)
signal.signal(signal.SIGTERM, leave)
print('attempt', os.environ['CLOUD_RUN_TASK_ATTEMPT'], flush=True)
if os.environ['CLOUD_RUN_TASK_ATTEMPT'] == '0': time.sleep(60)
"""
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('attempt', os.environ['CLOUD_RUN_TASK_ATTEMPT'], flush=True)
if os.environ['CLOUD_RUN_TASK_ATTEMPT'] == '0': time.sleep(60)
"""
LEAVES_A_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
print('child', child.pid, flush=True)
"""
FOREVER = "import time; print('attempt', flush=True); time.sleep(60)"


def test_maintenance_sends_sigterm_and_the_task_is_retried(jobs: Any, call: Any) -> None:
    jobs.create(CATCHES, maxRetries=1)
    execution = jobs.run()
    jobs.said(execution, "attempt 0")
    signalled = call.ok("POST", "/_localcloud/preempt", {"execution": execution.rsplit("/", 1)[-1], "task_index": 0})
    assert signalled == {"signalled": [{"execution": execution.rsplit("/", 1)[-1], "task_index": 0, "attempt": 0}]}
    ended = jobs.finished(execution)
    assert (ended["succeededCount"], ended["retriedCount"]) == (1, 1)
    first, second = jobs.attempts(execution)
    assert (first["why"], first["exit_code"], first["signal"]) == ("preempted", 143, None)
    assert (second["why"], second["exit_code"]) == ("finished", 0)
    lines = jobs.lines(execution)
    notice = "Container instance preemption initiated by the platform due to underlying hardware maintenance."
    assert lines.index("attempt 0") < lines.index(notice) < lines.index("caught") < lines.index("attempt 1")


def test_a_task_that_ignores_sigterm_is_killed_when_the_grace_is_over(jobs: Any, call: Any) -> None:
    jobs.create(STUBBORN, maxRetries=1)
    execution = jobs.run()
    jobs.said(execution, "attempt 0")
    asked = time.monotonic()
    call.ok("POST", "/_localcloud/preempt")
    jobs.said(execution, "attempt 1")
    assert time.monotonic() - asked >= 2  # the grace that the fixture sets
    first = jobs.attempts(execution)[0]
    assert (first["why"], first["exit_code"], first["signal"]) == ("preempted", None, signal.SIGKILL)


@pytest.mark.slow
def test_the_grace_is_ten_seconds_unless_set_otherwise(tmp_path: Path, jobs_on: Any) -> None:
    with running_cloud(tmp_path / "state") as cloud, jobs_on(cloud) as jobs:
        jobs.create(STUBBORN, maxRetries=1)
        execution = jobs.run()
        jobs.said(execution, "attempt 0")
        asked = time.monotonic()
        cloud.ask("POST", "preempt")
        jobs.said(execution, "attempt 1")
        assert 10 <= time.monotonic() - asked < 13


def test_a_lost_machine_ends_a_task_without_notice(jobs: Any, call: Any) -> None:
    jobs.create(CATCHES, maxRetries=1)
    execution = jobs.run()
    jobs.said(execution, "attempt 0")
    call.ok("POST", "/_localcloud/kill")
    assert jobs.finished(execution)["succeededCount"] == 1
    first = jobs.attempts(execution)[0]
    assert (first["why"], first["exit_code"], first["signal"]) == ("killed", None, signal.SIGKILL)
    assert "caught" not in jobs.lines(execution)


def test_the_timeout_holds_for_each_attempt(jobs: Any) -> None:
    jobs.create(FOREVER, timeout="1s", maxRetries=1)
    ended = jobs.finished(execution := jobs.run())
    assert ended["failedCount"] == 1
    assert [each["why"] for each in jobs.attempts(execution)] == ["timeout", "timeout"]
    line = "Terminating task because it has reached the maximum timeout of 1 seconds."
    assert jobs.lines(execution).count(line) == 2
    assert jobs.tasks(execution)[0]["lastAttemptResult"] == {
        "status": {"code": 4, "message": "The configured timeout was reached."},
        "termSignal": 15,
    }


def test_a_cancelled_execution_ends_its_tasks_and_retries_nothing(jobs: Any, call: Any) -> None:
    jobs.create(FOREVER, maxRetries=3, execution={"taskCount": 2, "parallelism": 1})
    execution = jobs.run()
    jobs.said(execution, "attempt")
    operation = call.ok("POST", f"/v2/{execution}:cancel", {})
    ended = jobs.finished(execution)
    assert (ended["cancelledCount"], ended.get("retriedCount", 0)) == (2, 0)
    assert ended["conditions"][0]["executionReason"] == "CANCELLED"
    assert [each["why"] for each in jobs.attempts(execution)] == ["cancelled"]
    assert jobs.attempts(execution, 1) == []
    assert call.ok("GET", f"/v2/{operation['name']}")["done"] is True
    assert call("POST", f"/v2/{execution}:cancel", {}).status_code == 400


def test_processes_that_a_task_leaves_behind_end_with_it(jobs: Any) -> None:
    jobs.create(LEAVES_A_CHILD)
    jobs.finished(execution := jobs.run())
    child = int(jobs.lines(execution, "textPayload:child")[0].split()[1])
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_exit_code_zero_after_a_preemption_counts_as_done(jobs: Any, call: Any) -> None:
    """As on Cloud Run: a program that exits 0 on SIGTERM ends its training silently."""
    jobs.create(CATCHES.replace("sys.exit(143)", "sys.exit(0)"), maxRetries=3)
    execution = jobs.run()
    jobs.said(execution, "attempt 0")
    call.ok("POST", "/_localcloud/preempt")
    ended = jobs.finished(execution)
    assert (ended["succeededCount"], ended.get("retriedCount", 0)) == (1, 0)
    assert [(each["why"], each["exit_code"]) for each in jobs.attempts(execution)] == [("preempted", 0)]


def test_interrupting_nothing_is_refused_with_the_reason(call: Any) -> None:
    answer = call("POST", "/_localcloud/preempt", {"execution": "gone"})
    assert answer.status_code == 409
    assert "execution gone has no attempt running" in answer.json()["error"]["message"]


def test_a_memory_overrun_kills_without_sigterm(jobs: Any) -> None:
    probe = memory.create("probe", 2**29)
    if probe is None:
        pytest.skip("no memory control group may be made on this machine")
    probe.remove()
    code = CATCHES.replace("time.sleep(60)", "hog = bytearray(800 * 2**20); time.sleep(60)")
    jobs.create(code, maxRetries=0)
    ended = jobs.finished(execution := jobs.run())
    assert ended["failedCount"] == 1
    attempt = jobs.attempts(execution)[0]
    assert (attempt["why"], attempt["signal"]) == ("memory", signal.SIGKILL)
    lines = jobs.lines(execution)
    assert "caught" not in lines
    assert any(line.startswith("Memory limit of 512 MiB exceeded with 5") for line in lines)
    result = jobs.tasks(execution)[0]["lastAttemptResult"]
    assert result == {"status": {"code": 2, "message": "The configured memory limit was reached."}, "termSignal": 9}


def test_a_task_within_its_memory_may_read_more_through_the_page_cache(jobs: Any, tmp_path: Path) -> None:
    """1 GiB through the cache under a limit of 512 MiB: working memory is limited, not reading and writing."""
    code = f"""
import os
block = os.urandom(2**20)
with open({str(tmp_path / "big")!r}, 'wb') as file:
    for _ in range(1024): file.write(block)
with open({str(tmp_path / "big")!r}, 'rb') as file:
    while file.read(2**20): pass
print('read')
"""
    jobs.create(code)
    assert jobs.finished(jobs.run())["succeededCount"] == 1


def test_deleting_a_job_ends_what_runs_of_it(jobs: Any, call: Any) -> None:
    jobs.create(FOREVER)
    execution = jobs.run()
    jobs.said(execution, "attempt")
    call.ok("DELETE", "/v2/projects/local-project/locations/europe-west4/jobs/job")
    assert call("GET", f"/v2/{execution}").status_code == 404
    assert call.ok("GET", "/_localcloud/status")["running_executions"] == []
    assert call.ok("GET", "/_localcloud/inventory")["resources"] == []


def test_a_cancellation_outlives_the_server(tmp_path: Path, jobs_on: Any) -> None:
    state = tmp_path / "state"
    with running_cloud(state, grace_s=30) as cloud, jobs_on(cloud) as jobs:
        jobs.create(STUBBORN, maxRetries=3)
        execution = jobs.run()
        jobs.said(execution, "attempt 0")
        jobs.call.ok("POST", f"/v2/{execution}:cancel", {})
        os.kill(cloud.pid, signal.SIGKILL)
        os.waitpid(cloud.pid, 0)
    with running_cloud(state) as cloud, jobs_on(cloud) as jobs:
        assert jobs.finished(execution)["cancelledCount"] == 1
        assert "attempt 1" not in jobs.lines(execution)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_execution_goes_on_when_the_server_died_and_starts_again(
    tmp_path: Path, jobs_on: Any, how: signal.Signals
) -> None:
    """Killed: the attempt is lost, as with a machine. Stopped: SIGTERM and grace first.

    Either way the next attempt follows.
    """
    state = tmp_path / "state"
    with running_cloud(state, grace_s=2) as cloud, jobs_on(cloud) as jobs:
        jobs.create(CATCHES, maxRetries=1)
        execution = jobs.run()
        jobs.said(execution, "attempt 0")
        os.kill(cloud.pid, how)
        os.waitpid(cloud.pid, 0)
    with running_cloud(state) as cloud, jobs_on(cloud) as jobs:
        assert jobs.finished(execution)["succeededCount"] == 1
        first, second = jobs.attempts(execution)
        assert first["why"] == ("killed" if how is signal.SIGKILL else "preempted")
        assert second["why"] == "finished"
        assert ("caught" in jobs.lines(execution)) is (how is signal.SIGTERM)
