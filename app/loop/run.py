"""One session: resume, hand out steps, save at boundaries, mark the end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from app import logs, provenance
from app.checkpoint.line import Line
from app.checkpoint.writer import Origin
from app.contract import ExitCode, Reason, TaskError
from app.loop import parts, rng, unsaved
from app.loop.boundaries import Boundaries
from app.loop.commits import Commits, Statistics
from app.loop.curve import Curve
from app.loop.ending import Ending
from app.loop.gate import Gate, Phase
from app.loop.hooks import Hooks
from app.loop.identity import of_session
from app.loop.resuming import resume
from app.loop.saver import Saver
from app.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from app.loop.boundary import Boundary
    from app.loop.curve import Metric
    from app.loop.options import Options
    from app.loop.program import Program
    from app.shutdown import Shutdown
    from app.startup import Start

T = TypeVar("T")


class Run:
    """Made by `session`; a context manager. Its methods are for the training thread."""

    def __init__(self, program: Program, options: Options, start: Start, shutdown: Shutdown) -> None:
        self._program = program
        self._options = options
        self._start = start
        self._shutdown = shutdown
        self._line = Line(
            start.store, start.ledger.attempt, options.keep, start.clock.sleep, keep_every=options.keep_every
        )
        self._gate: Gate[Boundary] = Gate(program.untouched_since)
        self._identity = of_session(program, options.identity)
        self._curve = Curve(options.total_steps, options.log_every, start.clock)
        self._watchdog = Watchdog(shutdown, clock=start.clock.now_s)
        self._ending = Ending(start, self._line, shutdown, self._identity, options.total_steps, lambda: self._step)
        self._first = 0
        self._step = 0
        self._end = options.total_steps
        self._began = False
        self._complete = False
        self._is_early = False
        self._warned = False
        self._hooks = Hooks(program, self._gate)
        self._pid = os.getpid()
        self._positions: dict[str, Any] = {}
        self._generators: dict[str, Any] | None = None
        self._saver: Saver | None = None
        self._boundaries: Boundaries | None = None

    @property
    def shard(self) -> tuple[int, int]:
        """(index, count) of this task, for splitting data; each task has a checkpoint line of its own."""
        return self._start.task.index, self._start.task.count

    @property
    def first_step(self) -> int:
        """Steps completed by earlier attempts; 0 on a fresh line."""
        return self._first

    def __enter__(self) -> Run:
        self._ending.is_yet_to_come()
        self._shutdown.before_leaving(self._ending.in_ledger)  # first: what is refused here ends the attempt, too
        resumed_from = self._resume()
        if self._ending.was_early(self._first):
            self._end = self._first
        self._positions = self._program.positions()
        unsaved.refuse_what_cannot_be(self._program, self._first)
        unsaved.tell_of_parameters(self._program)
        commits = Commits(
            line=self._line,
            ledger=self._start.ledger,
            origin=Origin(self._identity, provenance.environment(), resumed_from),
            shutdown=self._shutdown,
            statistics=Statistics(durable_step=self._first, durable_at_s=self._start.clock.now_s()),
            last_step=lambda: self._step,
            clock=self._start.clock,
        )
        saver = self._saver = Saver(
            commits=commits,
            gate=self._gate,
            shutdown=self._shutdown,
            encode=lambda boundary: parts.encode(self._program, boundary),
            on_moved=self._program.distrust_gate,
            clock=self._start.clock,
        )
        self._boundaries = Boundaries(
            self._program,
            self._options,
            self._start,
            gate=self._gate,
            saver=saver,
            shutdown=self._shutdown,
            ending=self._ending,
            first=self._first,
        )
        saver.start()
        self._hooks.connect()
        return self

    def steps(self) -> Iterator[int]:
        """The steps still to be done, from the newest verified checkpoint on. Each begins at a boundary.

        One loop goes through them: raises RuntimeError for a second one, which would count from the beginning again.
        """
        if self._began:
            raise RuntimeError(
                "run.steps() is gone through once in a session: another loop would do its first steps a second time, "
                "under numbers that checkpoints have already. Go on within the one loop, or keep its iterator: "
                "steps = run.steps(), then next(steps)."
            )
        self._began = True
        step = self._first
        while step < self._end:
            self._at_boundary(step)
            yield step
            step += 1
        self._save_the_last()

    def finish_early(self) -> None:
        """The work is complete after the step under way (early stopping): `steps` hands out no more.

        The step ends with its body, or where that leaves the loop by `break`.
        """
        self._end = self._step + 1
        self._is_early = True

    def log(self, *, tokens: int = 0, **metrics: Metric) -> None:
        """A log line for the step under way, every `log_every` steps and for the last. Tensors are read only then.

        After the loop it is of the last step.

        `tokens` processed in this step add up to the line's tokens_per_s.
        """
        done = self._step if self._complete else self._step + 1
        self._curve.point(done, tokens, metrics, self._live(self._boundaries).at_risk(done))

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
            self._watchdog.alive()
            yield item

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return  # a forked child that ends: threads, hooks and the line are its parent's
        if self._is_early and not self._complete and error is None:  # `break` after finish_early()
            try:
                self._save_the_last()
            except BaseException as failure:
                self.__exit__(type(failure), failure, failure.__traceback__)
                raise
        self._watchdog.stop()
        if self._shutdown.noticed.is_set() and not self._complete:
            self._leave_after_stop(error)
        self._gate.finish()
        try:
            if self._complete and error is None:
                self._ending.complete(self._program.weights())
            elif error is None:
                self._ending.left_early()
        finally:
            self._release()
        if self._shutdown.noticed.is_set() and not (self._complete and error is None):
            self._ending.in_ledger(ExitCode.STOPPED, Reason.STOPPED)
            self._ending.leave_stopped()  # it came while what was begun was brought to its end
        if isinstance(error, TaskError):
            self._ending.in_ledger(error.exit_code, error.reason)
        elif error is not None:
            self._ending.in_ledger(ExitCode.FAILED, Reason.FAILED)

    def _save_the_last(self) -> None:
        self._step = max(self._end, self._first)
        self._live(self._boundaries).last(self._step)
        self._shutdown.on_stop = self._ending.leave_stopped  # all is durable; only the end mark is missing
        self._watchdog.stop()
        self._complete = True

    def _leave_after_stop(self, error: BaseException | None) -> NoReturn:
        """The program left its loop while a stop was under way, perhaps because a data worker was stopped too."""
        if error is not None:
            logs.failure("The program raised after the stop; that does not change how the task ends.", error)
        self._live(self._saver).on_stop()
        self._gate.finish()  # in a DIRTY step no boundary will come
        self._live(self._saver).wait_for_stop()
        self._ending.leave_stopped()

    def _resume(self) -> str | None:
        found = resume(self._program, self._line, self._start, self._identity, fork=self._options.fork)
        if found is None:
            return None
        self._generators = found.generators
        self._first = self._step = found.step
        return found.name

    def _at_boundary(self, step: int) -> None:
        self._step = step
        self._shutdown.rearm()
        self._watchdog.step()
        if step == self._first and self._generators is not None:
            rng.restore(self._generators)  # whatever was drawn since the session began was drawn the first time too
        self._live(self._boundaries).pass_one(step, self._watchdog.median_step_s)
        if step == self._first:
            unsaved.tell_of_data_drawn_before(self._program, self._positions)
            self._begin()

    def _begin(self) -> None:
        """At the first boundary a stop has something to hold on to."""
        self._shutdown.on_stop = self._live(self._saver).on_stop
        self._curve.begin()
        if self._shutdown.noticed.is_set():
            self._ending.leave_stopped()

    def _release(self) -> None:
        self._hooks.remove()
        self._live(self._saver).close()
        if not self._complete:
            self._shutdown.on_stop = None
        self._shutdown.forget(self._ending.in_ledger)

    def _live(self, part: T | None) -> T:
        if part is None:
            raise RuntimeError("A session is a context manager: with session(...) as run:")
        return part
