"""`python -m app` as a process: what it says, what it leaves, and the same weights whatever interrupts it."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.crash.worker import SIGTERM_LINE, Worker, countdown


def test_the_tutorials_countdown_says_the_tutorials_lines(root):
    worker = countdown(root)
    worker.until_log("step 23/40")
    worker.stop()
    assert worker.process.returncode == 143
    second = countdown(root)
    assert second.wait() == 0
    messages = [line[9:] for line in second.log.splitlines()]
    assert "Saving checkpoint..." in messages
    assert f"WARNING {SIGTERM_LINE}" in messages
    (resumed,) = [message for message in messages if message.startswith("Resuming")]
    step = re.fullmatch(r"Resuming from checkpointed step (\d+)\.", resumed)
    assert step
    assert int(step[1]) >= 23


def test_on_cloud_run_every_line_is_json_and_steps_carry_their_fields(root):
    worker = countdown(root, CLOUD_RUN_JOB="trainer", CLOUD_RUN_EXECUTION="trainer-x1", CLOUD_RUN_TASK_INDEX="2")
    assert worker.wait() == 0
    lines = [json.loads(line) for line in worker.log.splitlines()]
    assert all({"severity", "message"} <= set(line) for line in lines)
    assert [line["step"] for line in lines if re.match(r"step \d+/40", line["message"])] == list(range(1, 41))
    done = json.loads((root / "trainer-task-2/done.json").read_text())
    assert (done["format"], done["step"], done["execution"]) == (1, 40, "trainer-x1")


def test_a_finished_line_started_again_exits_0_at_once_and_says_so(root):
    assert countdown(root).wait() == 0
    ledgers = len(list(root.glob("*/ledger/*")))
    again = countdown(root)
    assert again.wait() == 0
    assert "Finished already, at step 40" in again.log
    assert len(list(root.glob("*/ledger/*"))) == ledgers


def test_a_finished_line_with_more_steps_asked_goes_on(root):
    assert countdown(root).wait() == 0
    more = countdown(root, "--steps", "45")
    assert more.wait() == 0
    assert "Resuming from checkpointed step 40." in more.log


@pytest.mark.slow
def test_the_language_model_interrupted_ends_with_the_weights_of_an_uninterrupted_run(root, tmp_path, server):
    """The uninterrupted run is a process of its own; the attempts of the other are forks that have torch already."""
    flags = ("language_model", "--size", "tiny", "--steps", "40", "--save-every", "10")
    (tmp_path / "whole").mkdir()
    whole = Worker(tmp_path / "whole", *flags)
    log = root / "log.txt"
    log.touch()

    def interrupted_at(step: int, number: signal.Signals) -> int:
        pid = server.start_app(root, *flags, "--step-delay", "0.05")
        deadline = time.monotonic() + 90
        while f"step {step}/40" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.005)
        os.kill(pid, number)
        return server.wait()

    assert interrupted_at(13, signal.SIGTERM) == 143, log.read_text()
    assert interrupted_at(27, signal.SIGKILL) == -signal.SIGKILL
    server.start_app(root, *flags)
    assert server.wait() == 0, log.read_text()
    assert log.read_text().count("Resuming from checkpointed step") == 2
    assert whole.wait() == 0, whole.log
    assert "A sample of what it learned" in whole.log

    def weights(of: Path) -> str:
        return json.loads((of / "job-task-0/done.json").read_text())["weights_sha256"]

    assert weights(root) == weights(tmp_path / "whole")
