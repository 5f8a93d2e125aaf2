"""One session: resume, hand out steps, save at boundaries, mark the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from app import logs, provenance
from app.checkpoint import codec
from app.checkpoint.line import Line
from app.checkpoint.writer import Origin
from app.clock import now_rfc3339
from app.contract import ExitCode, Reason, Refusal, TaskError
from app.loop.gate import Gate, Phase
from app.loop.saver import Saver, Statistics
from app.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from app.loop.interval import Interval
    from app.loop.program import Boundary, Program
    from app.shutdown import Shutdown
    from app.startup import Start

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """What the user of a session chooses."""

    total_steps: int
    interval: Interval
    keep: int = 3
    """Verified checkpoints that stay."""
    log_every: int = 1
    """`Run.log` writes a line every so many steps."""
    identity: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else the state belongs to, besides the model's shape; a difference at resume is refused."""
    fork: bool = False
    """Resume in spite of another identity."""


class Run:
    """Made by `session`; a context manager. Its methods are for the training thread."""

    def __init__(self, program: Program, options: Options, start: Start, shutdown: Shutdown) -> None:
        self._program = program
        self._options = options
        self._start = start
        self._shutdown = shutdown
        self._line = Line(start.store, start.ledger.attempt, options.keep)
        self._gate: Gate[Boundary] = Gate(program.untouched_since)
        self._identity = {**program.identity(), **options.identity}
        self._first = 0
        self._step = 0
        self._last_save = (0, time.monotonic())
        self._retry_at: float | None = None
        self._complete = False
        self._warned = False
        self._tokens = 0
        self._logged_at = time.monotonic()
        self._unhook: Any = None
        self._saver: Saver | None = None
        self._watchdog = Watchdog(shutdown)

    @property
    def shard(self) -> tuple[int, int]:
        """(index, count) of this task, for splitting data; each task has a checkpoint line of its own."""
        return self._start.task.index, self._start.task.count

    @property
    def first_step(self) -> int:
        """Steps completed by earlier attempts; 0 on a fresh line."""
        return self._first

    def __enter__(self) -> Run:
        resumed_from = self._resume()
        codec.encode(
            self._program.state(self._program.capture(self._first))
        )  # refuse what cannot be saved before it costs hours
        self._saver = Saver(
            line=self._line,
            ledger=self._start.ledger,
            origin=Origin(self._identity, provenance.environment(), resumed_from),
            gate=self._gate,
            shutdown=self._shutdown,
            state_of=self._program.state,
            statistics=Statistics(durable_step=self._first),
            last_step=lambda: self._step,
        )
        self._saver.start()
        if self._program.optimizers:
            from torch.optim.optimizer import register_optimizer_step_pre_hook

            self._unhook = register_optimizer_step_pre_hook(self._before_update)
        self._shutdown.before_leaving(self._end_ledger)
        return self

    def steps(self) -> Iterator[int]:
        """The steps still to be done, from the newest verified checkpoint on. Each begins at a boundary."""
        for step in range(self._first, self._options.total_steps):
            self._at_boundary(step)
            yield step
        self._step = max(self._options.total_steps, self._first)
        self._final_save()
        self._complete = True

    def log(self, *, tokens: int = 0, **metrics: Any) -> None:
        """A log line for the step under way, every `log_every` steps and for the last. Tensors are read only then.

        `tokens` processed in this step add up to the line's tokens_per_s.
        """
        done, total = self._step + 1, self._options.total_steps
        self._tokens += tokens
        if done % self._options.log_every and done != total:
            return
        now = time.monotonic()
        fields = {name: _number(value) for name, value in metrics.items()}
        if self._tokens:
            fields["tokens_per_s"] = round(self._tokens / max(now - self._logged_at, 1e-9), 1)
        self._tokens, self._logged_at = 0, now
        text = "".join(f"  {name} {value:.4g}" for name, value in fields.items())
        logs.info(f"step {done}/{total}{text}", step=done, **fields)

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """Go through another long loop (evaluation). At the top of a step a stop need not wait for its end."""
        if self._gate.phase is Phase.DIRTY and not self._warned:
            self._warned = True
            logs.warning(
                "run.watch after optimizer.step(): a stop must wait for the end of this loop, and if that takes "
                "longer than the grace period this step is lost. Evaluate at the top of the loop body, where it is "
                "repeated exactly."
            )
        for item in items:
            self._gate.wait_if_held()
            self._watchdog.beat()
            yield item

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watchdog.stop()
        if self._shutdown.noticed.is_set() and not self._complete:
            self._leave_after_stop(error)
        self._gate.finish()
        try:
            if error is None:
                self._mark_end()
        finally:
            self._release()
        if isinstance(error, TaskError):
            self._end_ledger(error.exit_code, error.reason)
        elif error is not None:
            self._end_ledger(ExitCode.FAILED, Reason.FAILED)

    def _leave_after_stop(self, error: BaseException | None) -> NoReturn:
        """The program left its loop while a stop was under way, perhaps because a data worker was stopped too."""
        if error is not None:
            logs.failure("The program raised after the stop; that does not change how the task ends.", error)
        self._live_saver.on_stop()
        self._gate.finish()  # in a DIRTY step no boundary will come
        self._live_saver.wait_for_stop()
        self._shutdown.leave(ExitCode.STOPPED, Reason.STOPPED)

    def _resume(self) -> str | None:
        loaded = self._line.resume(ever_committed=self._start.ever_committed)
        if loaded is None:
            return None
        self._refuse_other_identity(str(loaded.name), loaded.head.identity)
        self._program.restore(loaded.state)
        self._first = self._step = loaded.head.step
        self._last_save = (self._first, time.monotonic())
        self._start.ledger.resumed(str(loaded.name), self._first)
        logs.info(f"Resuming from checkpointed step {self._first}.", step=self._first, checkpoint=str(loaded.name))
        provenance.tell_differences(loaded.head.environment)
        return str(loaded.name)

    def _refuse_other_identity(self, name: str, saved: dict[str, Any]) -> None:
        keys = sorted(saved.keys() | self._identity.keys())
        differences = [
            f"{key}: {saved.get(key)!r} in the checkpoint, {self._identity.get(key)!r} here"
            for key in keys
            if saved.get(key) != self._identity.get(key)
        ]
        if not differences:
            return
        if self._options.fork:
            logs.warning(f"Forking from checkpoint {name} in spite of: {'; '.join(differences)}.")
            return
        raise Refusal(
            f"Checkpoint {name} belongs to something else: {'; '.join(differences)}. Nothing was changed. Run with "
            "the settings it was made with, use another CHECKPOINT_DIR or job name, or continue from it on purpose "
            "with --fork (fork=True)."
        )

    def _before_update(self, optimizer: Any, *_: Any) -> None:
        if self._program.concerns(optimizer):
            self._gate.enter_update()
            self._program.optimizer_begins(optimizer)

    def _at_boundary(self, step: int) -> None:
        self._step = step
        self._shutdown.rearm()
        self._watchdog.beat()
        if self._program.half_accumulated():
            return  # the boundary before stays the one to save
        boundary = self._program.capture(step)
        self._gate.pass_boundary(boundary)
        if step == self._first:
            self._shutdown.on_stop = self._live_saver.on_stop
            self._logged_at = time.monotonic()
            if self._shutdown.noticed.is_set():
                self._shutdown.leave(ExitCode.STOPPED, Reason.STOPPED)
            return
        if self._hand_off_is_due():
            self._hand_off(boundary)
        if self._save_is_due(step):
            self._save(boundary)

    def _save_is_due(self, step: int) -> bool:
        now, statistics = time.monotonic(), self._live_saver.statistics
        if statistics.failures_in_a_row:
            if self._retry_at is None:
                self._retry_at = now + min(2.0 ** (statistics.failures_in_a_row - 1), 60.0)
            return now >= self._retry_at
        last_step, last_at = self._last_save
        return self._options.interval.due(step - last_step, now - last_at, statistics.seconds)

    def _save(self, boundary: Boundary) -> None:
        """Copy the state here, at the boundary, and write the copy in the background."""
        logs.info("Saving checkpoint...", step=boundary.step)
        self._live_saver.wait()
        self._live_saver.submit(boundary.step, codec.encode(self._program.state(boundary)).copied())
        self._last_save = (boundary.step, time.monotonic())
        self._retry_at = None

    def _hand_off_is_due(self) -> bool:
        """Whether the platform's timeout is so near that one more step and a save might not fit."""
        timeout = self._start.task.timeout_s
        if timeout is None:
            return False
        needed = 10.0 + 2 * self._watchdog.median_step_s + 3 * self._live_saver.statistics.seconds
        return time.monotonic() - self._shutdown.started_at > timeout - min(needed, timeout / 2)

    def _hand_off(self, boundary: Boundary) -> None:
        logs.info(f"The task's timeout is near: saving step {boundary.step} and handing off to the next attempt.")
        self._save_and_wait(boundary)
        self._shutdown.leave(ExitCode.HANDED_OFF, Reason.HANDED_OFF)

    def _final_save(self) -> None:
        boundary = self._program.capture(self._step)
        self._gate.finish()
        self._save_and_wait(boundary)
        self._shutdown.on_stop = self._leave_stopped  # all is durable; only the end mark is missing
        self._watchdog.stop()

    def _save_and_wait(self, boundary: Boundary) -> None:
        saver = self._live_saver
        saver.wait()
        if saver.statistics.durable_step < boundary.step:
            logs.info("Saving checkpoint...", step=boundary.step)
            saver.save_now(boundary.step, codec.encode(self._program.state(boundary)))

    def _mark_end(self) -> None:
        if not self._complete:
            logs.warning(
                f"The loop was left after step {self._step} of {self._options.total_steps}; the work is not marked as "
                "complete."
            )
            return
        task, step = self._start.task, self._step
        digest = provenance.weights_sha256(self._program.weights())
        self._line.finish(
            {
                "format": 1,
                "step": step,
                "weights_sha256": digest,
                "epoch": self._start.ledger.attempt.epoch,
                "execution": task.execution,
                "finished_at": now_rfc3339(),
                "identity": self._identity,
            }
        )
        self._shutdown.on_stop = self._leave_finished
        self._end_ledger(ExitCode.DONE, Reason.FINISHED)
        logs.info(f"Finished at step {step}; weights sha256 {digest}.", step=step, weights_sha256=digest)
        if self._shutdown.noticed.is_set():
            self._leave_finished()  # complete in spite of the stop: what follows the session would be cut short

    def _release(self) -> None:
        if self._unhook is not None:
            self._unhook.remove()
        self._live_saver.close()
        if not self._complete:
            self._shutdown.on_stop = None
        self._shutdown.forget(self._end_ledger)

    def _leave_stopped(self) -> None:
        self._shutdown.leave(ExitCode.STOPPED, Reason.STOPPED)

    def _leave_finished(self) -> None:
        self._shutdown.leave(ExitCode.DONE, Reason.FINISHED)

    def _end_ledger(self, code: int, reason: str) -> None:
        self._start.ledger.end(code, reason, self._step)

    @property
    def _live_saver(self) -> Saver:
        if self._saver is None:
            raise RuntimeError("A session is a context manager: with session(...) as run:")
        return self._saver


def _number(value: Any) -> float:
    """Of a number or a tensor of one element; the latter waits for the device."""
    return float(value.detach() if hasattr(value, "detach") else value)
