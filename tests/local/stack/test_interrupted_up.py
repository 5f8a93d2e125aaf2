"""`pulumi up` interrupted at any moment: the next `up`, or `gpujob recover` and then `up`, heals."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from localcloud.testing import running_cloud
from tests.local.stack.support import LocalStack, kill_group, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]

# How many resources exist when the interruption comes: at the start, in the middle, near the end.
MOMENTS = [1, 4, 8]


@pytest.mark.parametrize("existing", MOMENTS)
def test_an_up_stopped_by_ctrl_c_is_healed_by_the_next_up(stack: LocalStack, existing: int) -> None:
    process = stack.start("up", "--skip-preview")
    wait_until(lambda: len(stack.inventory()) >= existing)
    os.kill(process.pid, signal.SIGINT)
    process.wait(timeout=60)
    stack.on_stack("up", "--yes", "--skip-preview")
    assert stack.changes("up", "--refresh") == {}


@pytest.mark.parametrize("existing", MOMENTS)
def test_an_up_that_was_killed_is_healed_by_recover_and_up(stack: LocalStack, existing: int) -> None:
    process = stack.start("up", "--skip-preview")
    wait_until(lambda: len(stack.inventory()) >= existing)
    kill_group(process)
    recover(stack)
    stack.on_stack("up", "--yes", "--skip-preview")
    assert stack.changes("up", "--refresh") == {}


def test_a_local_cloud_killed_during_up_is_healed_by_starting_it_again(stack: LocalStack) -> None:
    process = stack.start("up", "--skip-preview")
    wait_until(lambda: len(stack.inventory()) >= 3)
    os.kill(stack.cloud.pid, signal.SIGKILL)
    assert process.wait(timeout=120) != 0
    with running_cloud(stack.cloud.state_dir, port=stack.cloud.port):
        recover(stack)
        stack.on_stack("up", "--yes", "--skip-preview")
        assert stack.changes("up", "--refresh") == {}


def recover(stack: LocalStack) -> None:
    done = subprocess.run(
        ["gpujob", "recover", "--stack", "local", "--config-file", str(stack.config)],
        env=stack.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_state_whose_side_file_was_cut_off_is_readable_again_after_recover(stack: LocalStack) -> None:
    side_file = next(stack.folder.rglob("local.json.attrs"))
    side_file.write_text("")
    stack.pulumi("stack", "export", "--stack", "local", expect=1)
    recover(stack)
    stack.pulumi("stack", "export", "--stack", "local")
