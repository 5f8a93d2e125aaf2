"""Attempts in forks of a process that has imported torch: one costs a tenth of a second instead of several."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch

from app.checkpoint.storage import directory
from app.checkpoint.storage.medium import Medium
from app.provenance import weights_sha256
from tests.crash.points import WINDOWS, How, Kill, Seam, Window
from tests.engine.harness import Trial

HANGS_S = 120.0
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Mode:
    """How the attempts of a line save. Weights depend on `frozen` and `steps` alone."""

    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of the session: snapshot, keep, keep_every."""
    frozen: bool = False
    medium: Medium = Medium.DISK
    """MOUNT publishes by exclusive creation, so that a kill can tear a manifest."""
    shard_bytes: int | None = None
    """So small that a save has several shards, which are written in parallel."""
    halved: bool = False
    """The optimizer's step has a middle, at which it can be stopped."""
    steps: int = 12
    every_steps: int = 3

    def __str__(self) -> str:
        parts = [f"{key}={value}" for key, value in self.options.items()]
        parts += [self.medium.value, *(["frozen"] if self.frozen else []), *(["shards"] if self.shard_bytes else [])]
        return " ".join(parts)


@dataclass(frozen=True)
class Stop:
    """When SIGTERM comes: `place` of the step `step`, where the program waits for it; or so long after the start."""

    place: str = ""
    step: int = 0
    delay_s: float = 0.0


@dataclass
class Ended:
    """How an attempt ended."""

    status: int
    """Exit code, or minus the signal that killed it."""
    window: Window
    """What it was about."""
    log: str
    counts: dict[str, int]
    """Calls by label; only of an attempt that ended by itself."""
    seconds: float
    """From its first step to its end."""

    @property
    def was_killed(self) -> bool:
        return self.status == -signal.SIGKILL

    @property
    def resumed_from(self) -> int | None:
        """The step that its log says."""
        lines = [line for line in self.log.splitlines() if "Resuming from checkpointed step " in line]
        return int(lines[0].rpartition(" ")[2].rstrip(".")) if lines else None

    @property
    def weights(self) -> list[tuple[int, str]]:
        """(step, hash) at the beginning of each step; of an attempt that is to be killed, of its first."""
        found = [line.split() for line in self.log.splitlines() if line.startswith("weights-at ")]
        return [(int(step), digest) for _, step, digest in found]


def run(
    root: Path,
    mode: Mode,
    kill: Kill | None = None,
    prepare: Callable[[], None] = lambda: None,
    stop: Stop | None = None,
) -> Ended:
    """One attempt on the line in `root`, to its end or to its death. `prepare` runs in it first."""
    log = tempfile.TemporaryFile()  # noqa: SIM115 - not in `root`, which may be a mount
    now_in = mmap.mmap(-1, mmap.PAGESIZE)
    here, there = socket.socketpair()
    began_at = time.monotonic()
    pid = os.fork()
    if pid == 0:
        here.close()
        _attempt(root, mode, kill or stop, _Wires(log.fileno(), now_in, there), prepare)
    there.close()
    with here:
        timed = stop or (kill if kill and kill.how in (How.SOON, How.INSTANT) else None)
        if timed and here.recv(1):
            time.sleep(timed.delay_s)
            os.kill(pid, signal.SIGTERM if stop else signal.SIGKILL)
            with suppress(BrokenPipeError):
                here.send(b"!")
        status = _wait(pid)
    with log:
        log.seek(0)
        text = log.read().decode(errors="replace")
    counts = [line for line in text.splitlines() if line.startswith("calls ")]
    return Ended(
        status,
        WINDOWS[now_in[0]],
        text,
        json.loads(counts[-1].removeprefix("calls ")) if counts else {},
        time.monotonic() - began_at,
    )


def _wait(pid: int) -> int:
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    if not poll.poll(HANGS_S * 1000):
        os.kill(pid, signal.SIGABRT)
    os.close(ended)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@dataclass(frozen=True)
class _Wires:
    """From the attempt to its parent."""

    log: int
    now_in: mmap.mmap
    reached: socket.socket


def _attempt(root: Path, mode: Mode, end: Kill | Stop | None, wires: _Wires, prepare: Callable[[], None]) -> NoReturn:
    """In the fork: the attempt, as the program would run it."""
    from app import shutdown
    from app.checkpoint import writer

    def reached() -> None:
        wires.reached.send(b"!")

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it writes nothing once a sweep has ended
    kill, stop = (end if isinstance(end, Kill) else None), (end if isinstance(end, Stop) else None)
    try:
        os.dup2(wires.log, 1)
        os.dup2(wires.log, 2)
        os.fsync = os.fdatasync = lambda _fd: None  # a SIGKILL takes no page cache away; a power cut is not tried
        directory.medium_of = lambda _path: mode.medium
        if mode.shard_bytes:
            writer.SHARD_BYTES = mode.shard_bytes
        prepare()
        shutdown.process = shutdown.Shutdown()  # the parent may have had sessions, and their end
        shutdown.process.install()
        trial = Trial(root, mode.every_steps, mode.steps, frozen=mode.frozen, options=mode.options)
        trial.shutdown = shutdown.process
        if mode.halved:
            trial.optimizer_class = Halved
            Halved.halfway = lambda: at("halfway", trial.step)
        seam = Seam(trial.line, kill, wires.now_in, reached)
        first = True

        def at(place: str, step: int) -> None:
            nonlocal first
            if stop and (place, step) == (stop.place, stop.step):
                reached()
                wires.reached.recv(1)  # the program is in a call of the system here, and the signal comes
                assert shutdown.process.noticed.wait(60)
            if place != "began" or (kill and not first):
                return
            assert trial.model
            os.write(1, f"weights-at {step} {weights_sha256(trial.model.state_dict())}\n".encode())
            if first:
                first = False
                seam.in_steps()
                if kill and kill.how is How.INSTANT:
                    reached()

        trial.at = at
        seam.install()
        if stop and not stop.place:
            reached()
        trial.run()
        os.write(1, f"calls {json.dumps(seam.counts)}\n".encode())
    except BaseException as error:  # as app.__main__ does
        os.write(2, f"ended by {error!r}\n".encode())
        import traceback

        traceback.print_exc()
        shutdown.process.leave(int(getattr(error, "exit_code", 70)), "failed")  # type: ignore[arg-type]
    shutdown.process.leave(0, "finished")  # type: ignore[arg-type]


class Halved(torch.optim.AdamW):
    """Updates every other parameter, then the rest; `halfway` is called in between."""

    halfway: Callable[[], None] = staticmethod(lambda: None)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        (group,) = self.param_groups
        every = group["params"]
        for half in (0, 1):
            group["params"] = every[half::2]
            super().step(closure)
            if half == 0:
                Halved.halfway()
        group["params"] = every


def warm_up() -> None:
    """What a first attempt would import late."""
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
