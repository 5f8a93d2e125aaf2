"""`python -m app` as the platform starts it: its own process, its environment, its signals, its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIGTERM_LINE = "Received SIGTERM signal from platform. Initiating graceful shutdown..."


class Worker:
    """A worker process whose output is followed in a file."""

    def __init__(self, root: Path, *arguments: str, program: str | None = None, **environment: str) -> None:
        self._log = root.parent / f"{root.name}.log"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("CLOUD_RUN", "TASK_"))}
        command = [sys.executable, "-c", program] if program else [sys.executable, "-m", "app", *arguments]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**inherited, "CHECKPOINT_DIR": str(root), "OMP_NUM_THREADS": "1", **environment},
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, condition: Callable[[], bool], within_s: float = 90) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert self.process.poll() is None, f"ended early: {self.log}"
            assert time.monotonic() < deadline, self.log
            time.sleep(0.005)

    def until_log(self, text: str) -> None:
        self.until(lambda: text in self.log)

    def stop(self) -> float:
        """Seconds from SIGTERM to the end."""
        asked = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        return time.monotonic() - asked

    def wait(self) -> int:
        return self.process.wait(timeout=120)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def countdown(root: Path, *more: str, **environment: str) -> Worker:
    return Worker(root, "countdown", "--steps", "40", "--step-delay", "0.02", *more, **environment)


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


class TestRefusals:
    def test_a_declared_gpu_that_is_not_usable_ends_the_task_with_78_and_names_the_parts(self, root):
        worker = Worker(root, "language_model", REQUIRED_GPU="nvidia-l4", CUDA_VISIBLE_DEVICES="")
        assert worker.wait() == 78
        assert all(
            part in worker.log for part in ("nvidia-l4", "NVIDIA driver", "built for CUDA", "checkpoints are untouched")
        )
        assert "parameters" not in worker.log

    def test_no_checkpoint_dir(self, root):
        worker = countdown(root, CHECKPOINT_DIR="")
        assert worker.wait() == 78
        assert "CHECKPOINT_DIR is not set" in worker.log

    def test_a_mount_that_is_missing(self, root):
        root.rmdir()
        worker = countdown(root)
        assert worker.wait() == 78
        assert "not mounted" in worker.log

    def test_a_checkpoint_of_another_workload_is_refused_and_forked_on_request(self, root):
        program = """
from app import session
with session(total_steps=3, identity={"workload": "mine"}) as run:
    list(run.steps())
"""
        assert Worker(root, program=program).wait() == 0
        worker = countdown(root)
        assert worker.wait() == 78
        assert "'mine' in the checkpoint, 'countdown' here" in worker.log
        forked = countdown(root, "--fork")
        assert forked.wait() == 0
        assert "Resuming from checkpointed step 3." in forked.log

    def test_a_bad_flag(self, root):
        worker = countdown(root, "--steps", "many")
        assert worker.wait() == 78
        assert "'many'" in worker.log

    def test_a_number_of_retries_that_is_none(self, root):
        worker = countdown(root, MAX_RETRIES="three")
        assert worker.wait() == 78
        assert "MAX_RETRIES is 'three'" in worker.log


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
class TestSmallDisk:
    @pytest.fixture
    def mounted(self, root: Path, request: pytest.FixtureRequest):
        options = request.param
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(root)], check=False, capture_output=True
        )
        if done.returncode:
            pytest.skip("this machine does not allow mounts")
        yield root
        subprocess.run(["umount", "-l", str(root)], check=False)

    @pytest.mark.parametrize("mounted", ["size=1m,ro"], indirect=True)
    def test_a_read_only_mount_is_refused(self, mounted):
        worker = countdown(mounted)
        assert worker.wait() == 78
        assert "read-only" in worker.log

    @pytest.mark.parametrize("mounted", ["size=200k"], indirect=True)
    def test_a_disk_that_fills_up_does_not_end_the_run_and_goes_on_saving_when_there_is_room(self, mounted):
        worker = countdown(mounted)
        worker.until_log("Checkpoint 000000000005")
        ballast = mounted / "ballast"
        fill(ballast)
        worker.until_log("No space left on device")
        ballast.unlink()
        assert worker.wait() == 0
        failed, went_on = worker.log.split("No space left on device", 1)
        assert "step 40/40" not in failed
        assert "step 40/40" in went_on
        assert list(mounted.glob("*/done.json"))


def fill(path: Path) -> None:
    """Until its file system is full."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


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
