"""How the worker ends: stopped at any time, handed off, failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.crash.worker import SIGTERM_LINE, Worker, countdown


def test_sigterm_during_the_import_of_torch_ends_the_process_at_once(root):
    worker = Worker(root, "language_model", "--size", "tiny")
    maps = Path(f"/proc/{worker.process.pid}/maps")
    worker.until(lambda: "libtorch" in maps.read_text())
    took_s = worker.stop()
    assert worker.process.returncode == 143, worker.log
    assert took_s < 2
    assert SIGTERM_LINE in worker.log
    assert "nothing to save" in worker.log


def test_sigterm_while_data_is_loaded_ends_the_process_at_once(root):
    program = """
from app import shutdown
shutdown.process.install()
from app import logs
logs.info("loading data")
import time
time.sleep(60)
"""
    worker = Worker(root, program=program)
    worker.until_log("loading data")
    assert worker.stop() < 2
    assert worker.process.returncode == 143


@pytest.mark.parametrize("steps_before", [0, 3])
def test_sigterm_in_the_first_step_of_an_attempt_ends_it_at_once_with_nothing_lost(root, steps_before):
    if steps_before:
        assert countdown(root, "--steps", str(steps_before)).wait() == 0
    program = """
import time
from app import logs, session
with session(total_steps=9, identity={"workload": "countdown"}) as run:
    for step in run.steps():
        logs.info(f"in step {step}")
        time.sleep(60)
"""
    worker = Worker(root, program=program)
    worker.until_log(f"in step {steps_before}")
    assert worker.stop() < 2
    assert worker.process.returncode == 143
    records = [json.loads(path.read_text()) for path in sorted(root.glob("*/ledger/*"))]
    assert (records[-1]["reason"], records[-1]["exit_code"]) == ("stopped", 143)


def test_an_exception_after_the_stop_does_not_change_the_exit_code(root):
    program = """
import time
from app import logs, session, shutdown
with session(total_steps=9, every_steps=100) as run:
    for step in run.steps():
        if step == 2:
            logs.info("ready")
            shutdown.process.noticed.wait()
            raise RuntimeError("a data worker was killed too")
"""
    worker = Worker(root, program=program)
    worker.until_log("ready")
    worker.stop()
    assert worker.process.returncode == 143, worker.log
    assert list(root.glob("*/checkpoints/000000000002-*")), worker.log


def test_before_the_timeout_it_hands_off_with_75_and_the_retry_goes_on(root):
    worker = Worker(root, "countdown", "--steps", "500", "--step-delay", "0.02", TASK_TIMEOUT_S="3")
    assert worker.wait() == 75
    (checkpoint,) = [path for path in root.glob("*/checkpoints/*") if "handing off" in worker.log][-1:]
    (record,) = [json.loads(path.read_text()) for path in root.glob("*/ledger/*")]
    assert (record["reason"], record["exit_code"]) == ("handed-off", 75)
    assert record["last_durable_step"] == max(int(path.name[:12]) for path in checkpoint.parent.iterdir())


def test_a_failing_program_exits_70_and_the_fourth_attempt_is_refused_in_seconds(root):
    program = """
import os, sys
sys.argv = ["app", "countdown", "--steps", "9", "--step-delay", "0"]
import app.workloads.countdown as workload
def broken(flags, start):
    raise RuntimeError("CUDA error: something broke")
workload.run = broken
from app.__main__ import main
main()
"""
    environment = {"CLOUD_RUN_EXECUTION": "trainer-x1"}
    assert [Worker(root, program=program, **environment).wait() for _ in range(3)] == [70, 70, 70]
    refused = countdown(root, **environment)
    assert refused.wait() == 78
    assert "without a new durable step" in refused.log
    assert countdown(root, CLOUD_RUN_EXECUTION="trainer-x2").wait() == 0
