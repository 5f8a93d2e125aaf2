"""Attempts in forked processes that can be killed for real: `python -m tests.crash.trials` serves them line by line.

torch is imported once; each attempt is a fork of this process, so a trial costs milliseconds instead of seconds.
A request is JSON: {"root", "steps", "every_steps", "step_s"}. With {"root", "app": [...]} it is `python -m app` with
these arguments instead. The answer is the attempt's pid and, after a line "wait", its exit status. Until then an ended
attempt stays a zombie, so that its pid stays its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch

from tests.engine.harness import Trial
from tests.forked import become_the_worker


def attempt(request: dict[str, object]) -> None:
    """One attempt, as the program would run it; never returns."""
    from app import shutdown

    shutdown.process.install()
    if request.get("quiet_disk"):
        os.fsync = lambda _fd: None
    pause = float(str(request.get("step_s") or 0))
    trial = Trial(
        Path(str(request["root"])), every_steps=int(str(request["every_steps"])), steps=int(str(request["steps"]))
    )
    trial.shutdown = shutdown.process
    if pause:
        trial.at = lambda _place, _step: time.sleep(pause / 5)
    try:
        trial.run()
    except BaseException:  # as app.__main__ does
        shutdown.process.leave(70, "failed")
    shutdown.process.leave(0, "finished")


def main() -> None:
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])  # its lazy imports, once
    print("ready", flush=True)
    while line := sys.stdin.readline():
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            if "app" in request:
                root = Path(str(request["root"]))
                become_the_worker(request["app"], {"CHECKPOINT_DIR": str(root)}, root / "log.txt")
            log = os.open(Path(str(request["root"])) / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            attempt(request)
        print(pid, flush=True)
        sys.stdin.readline()
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
