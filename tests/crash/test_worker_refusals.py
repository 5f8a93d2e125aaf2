"""What the worker refuses with 78, and a disk that fills up, which it survives."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.worker import Worker, countdown


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
