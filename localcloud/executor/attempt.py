"""One attempt of one task: a process group from its start to its last line of output."""

import asyncio
import contextlib
import enum
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud import launch
from localcloud.executor.memory import MemoryGroup
from localcloud.logs.output import MAX_LINE_BYTES, AttemptLog

_OOM_POLL_S = 0.2
_DRAIN_S = 5.0


class Why(enum.StrEnum):
    """Why an attempt ended."""

    FINISHED = "finished"
    FAILED = "failed"
    PREEMPTED = "preempted"
    KILLED = "killed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    MEMORY = "memory"


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: an exit code or the signal that ended it, never both."""

    why: Why
    exit_code: int | None
    signal: int | None
    message: str = ""
    """For the task's last attempt result; empty for success."""

    @property
    def succeeded(self) -> bool:
        """Exit code 0, whatever was asked of the process before: that is how Cloud Run counts."""
        return self.exit_code == 0 and self.why is not Why.MEMORY


@dataclass(frozen=True)
class Command:
    """What to start."""

    program: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    read_only: Sequence[tuple[Path, Path]] = ()
    """(source, target) directories to bind."""


class Attempt:
    """A started process group. Made by `start`; `wait` returns when it is gone."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: asyncio.Future[tuple[None, None]],
        group: MemoryGroup | None,
        log: AttemptLog,
        grace_s: float,
    ) -> None:
        self.process = process
        self._output = output
        self._group = group
        self._log = log
        self._grace_s = grace_s
        self._why: Why | None = None
        self._reaper: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, command: Command, group: MemoryGroup | None, log: AttemptLog, grace_s: float) -> "Attempt":
        """Start the program in a session, process group and (where given) memory group of its own."""
        launched = launch.command(
            list(command.program),
            groups=(str(group.procs),) if group else (),
            binds=tuple((str(source), str(target)) for source, target in command.read_only),
        )
        # Pipes of our own: asyncio's would make the wait for the process a wait for every child that holds its output.
        out, err = _Pipe(), _Pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *launched,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out.write_end,
                stderr=err.write_end,
                cwd=command.directory,
                env=dict(command.environment),
                start_new_session=True,
            )
        finally:
            os.close(out.write_end)
            os.close(err.write_end)
        output = asyncio.gather(_pump(await out.reader(), "stdout", log), _pump(await err.reader(), "stderr", log))
        return cls(process, output, group, log, grace_s)

    @property
    def stopping(self) -> bool:
        """Somebody has asked for its end already."""
        return self._why is not None

    def stop(self, why: Why) -> bool:
        """SIGTERM to the container's first process, SIGKILL to all of it when the grace is over; False if it is
        ending already."""
        if self.stopping or self.process.returncode is not None:
            return False
        self._why = why
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        self._reaper = asyncio.ensure_future(self._kill_after_grace())
        return True

    def kill(self, why: Why = Why.KILLED) -> bool:
        """SIGKILL to the whole group at once, as when a machine is lost."""
        if self.process.returncode is not None:
            return False
        self._why = self._why if self._why is Why.MEMORY else why
        self._kill_group()
        return True

    async def _kill_after_grace(self) -> None:
        await asyncio.sleep(self._grace_s)
        self._kill_group()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self._group:
            self._group.kill()

    async def wait(self, timeout_s: float) -> Outcome:
        """Until the first process is gone, what it left running is killed, and its output is in the log."""
        watcher = asyncio.ensure_future(self._watch_memory())
        try:
            async with asyncio.timeout(timeout_s):
                await self.process.wait()
        except TimeoutError:
            self._log.platform(
                f"Terminating task because it has reached the maximum timeout of {timeout_s:.0f} seconds.", "ERROR"
            )
            self.stop(Why.TIMEOUT)
            await self.process.wait()
        if self._reaper:
            self._reaper.cancel()
        self._kill_group()
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._output
        except TimeoutError:
            self._log.platform(
                "A process outside the task's process group kept its output open; it was not waited for."
            )
        watcher.cancel()
        return self._outcome()

    async def _watch_memory(self) -> None:
        """A container dies as a whole when the kernel kills any of its processes for memory."""
        while self._group:
            await asyncio.sleep(_OOM_POLL_S)
            if self._group.overran():
                self.kill(Why.MEMORY)
                return

    def _outcome(self) -> Outcome:
        code = self.process.returncode or 0
        exit_code, ended_by = (None, -code) if code < 0 else (code, None)
        if self._group and self._group.overran():
            return Outcome(Why.MEMORY, None, signal.SIGKILL, "The configured memory limit was reached.")
        if self._why is Why.TIMEOUT:
            return Outcome(Why.TIMEOUT, exit_code, ended_by, "The configured timeout was reached.")
        if code == 0:
            return Outcome(self._why or Why.FINISHED, 0, None)
        message = (
            "The container exited with an error."
            if exit_code is not None
            else f"Container terminated on signal {ended_by}."
        )
        return Outcome(self._why or Why.FAILED, exit_code, ended_by, message)


class _Pipe:
    """A pipe whose read end is watched by the event loop."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()

    async def reader(self) -> asyncio.StreamReader:
        """Start reading."""
        stream = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(self._read_end, "rb", buffering=0)
        )
        return stream


async def _pump(stream: asyncio.StreamReader, name: str, log: AttemptLog) -> None:
    """Every line of the stream into the log, the unfinished last one too."""
    pending = b""
    while chunk := await stream.read(65536):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            log.line(name, line)
        if len(pending) > MAX_LINE_BYTES:
            log.line(name, pending)
            pending = b""
    if pending:
        log.line(name, pending)
