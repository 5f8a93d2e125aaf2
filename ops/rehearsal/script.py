"""The rehearsal, from top to bottom: deploy, run, preempt, kill, resume, prove, destroy.

Everything is real but the cloud: the Pulumi engine deploys this project's own program into the local cloud, the
job's task is a process that trains on text, its interruptions are signals. Nothing outside `build/` is written.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from localcloud.ports import free_port
from localcloud.toolchain.environment import local_environment
from ops.rehearsal.cloud import RehearsalCloud
from ops.rehearsal.reference import UninterruptedRun
from ops.rehearsal.report import Rehearsal, show, write
from ops.rehearsal.stack import RehearsalStack

STEPS = 80
SAVE_EVERY = 10
# Not at a save: a stop saves at once, wherever it comes; after a kill the steps since the last save are done again.
PREEMPT_AT_STEP = 24
KILL_AT_STEP = 50
WORKLOAD = ["language_model", "--size", "tiny", "--steps", str(STEPS), "--save-every", str(SAVE_EVERY),
            "--log-every", "1", "--step-delay", "0.1"]  # fmt: skip
# The interrupted and the uninterrupted run share this machine's cores, and the bits of a sum depend on its threads.
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1"}


def rehearse(tree: Path) -> int:
    """Run the rehearsal in `tree`; print and write its report; return 0 if every promise held, else 1.

    Raises:
        RehearsalError: a command failed; says which, with the end of its output. The local cloud is stopped.
    """
    started = time.monotonic()
    work = tree / "build" / "rehearsal"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    port = free_port()
    environment = local_environment(tree, port, home=work)
    reference = UninterruptedRun(WORKLOAD, WORKER_ENVIRONMENT, work / "uninterrupted")
    cloud = RehearsalCloud(tree, port, work / "cloud", environment)
    stack = RehearsalStack(tree, port, work, environment, workload=WORKLOAD, worker_environment=WORKER_ENVIRONMENT)

    with cloud.running():
        created = stack.up()
        second_up_changes = stack.up_refreshed()
        outputs = stack.outputs()

        # An uninterrupted run of the same workload, for comparison, while the job runs and is interrupted.
        with reference.in_background():
            cloud.run(outputs)
            cloud.wait_for_step(PREEMPT_AT_STEP)
            cloud.preempt()
            cloud.wait_between_saves(KILL_AT_STEP, SAVE_EVERY)
            cloud.kill()
            cloud.wait_until_done()

        attempts = cloud.attempts()
        final_weights = cloud.final_weights()
        stack.destroy()
        left_over = cloud.inventory()

    result = Rehearsal(
        provider=stack.provider,
        resources_created=created,
        second_up_changes=second_up_changes,
        attempts=attempts,
        save_every=SAVE_EVERY,
        steps=STEPS,
        final_weights=final_weights,
        uninterrupted_weights=reference.weights(),
        left_over=left_over,
        wall_s=time.monotonic() - started,
    )
    write(result, tree / "build" / "rehearsal.json")
    return show(result)
