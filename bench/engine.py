"""The engine through its public seams: with startable.py all that changes in the benchmarks when the engine does."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch.optim.optimizer as hooks

from app import session
from app.checkpoint import codec
from app.checkpoint.line import Line
from app.checkpoint.manifest import FORMAT
from app.checkpoint.resume import Resumer
from app.checkpoint.storage.store import PARALLEL
from app.checkpoint.writer import Origin
from app.loop.program import Program
from app.shutdown import Shutdown
from bench.startable import open_line

if TYPE_CHECKING:
    from types import TracebackType

    from app.checkpoint.codec import Encoded
    from bench.states import Training

NAME = f"the engine (format {FORMAT})"
KEEP_ALL = 1_000_000


class EngineLine:
    """Saving and restoring without a session: the time of the engine alone. Nothing is pruned."""

    def __init__(self, root: Path) -> None:
        start = open_line(root)
        self._store = start.store
        self._line = Line(start.store, start.ledger.attempt, keep=KEEP_ALL, check=lambda _any_state: None)

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Durable and announced when it returns."""
        self.save_encoded(step, codec.encode(state), streams=PARALLEL)

    def save_encoded(self, step: int, encoded: Encoded, *, streams: int) -> None:
        self._line.commit(step, encoded, Origin({}, {}), streams=streams)

    def save_program(self, step: int, training: Training) -> None:
        program = _program(training)
        self.save(step, program.state(program.capture(step)))

    def restore(self) -> Any:
        """The newest state, verified, in memory of its own."""
        loaded = self._line.resume(ever_committed=True)
        assert loaded is not None
        return loaded.state

    def restore_into(self, training: Training) -> None:
        """The newest state, verified, in the tensors of model and optimizer: as a session does it."""
        program = _program(training)
        loaded = self._line.resume(ever_committed=True, into=lambda _head, table: program.filled_from(table))
        assert loaded is not None
        program.restore(loaded.state)

    def decide(self) -> str:
        """Which checkpoint to resume from. With a state of a few bytes its loading is included and does not matter."""
        loaded = Resumer(self._store, "bench").newest(ever_committed=True)
        assert loaded is not None
        return str(loaded.name)


class EngineSession:
    """A session on `training`, stepped by hand so that its rounds interleave with those of others.

    Time that the loop is blocked is what passes in `next_step` and, summed in `gate_s`, in the session's optimizer
    hook: it is the one registered between two of ours.
    """

    def __init__(self, root: Path, training: Training, *, every_steps: int, snapshot: str = "auto") -> None:
        self.gate_s = 0.0
        self._every = every_steps
        self._entered_gate_at = 0.0
        start = open_line(root)
        self._document = Path(str(start.task.line), start.ledger.attempt.document)
        self._before = hooks.register_optimizer_step_pre_hook(self._entering)
        self._session = session(
            model=training.model,
            optimizer=training.optimizer,
            total_steps=10**9,
            every_steps=every_steps,
            snapshot=snapshot,
            keep=2,
            start=start,
            shutdown=Shutdown(),
        )
        self._step = -1

    def __enter__(self) -> EngineSession:
        run = self._session.__enter__()
        self._after = hooks.register_optimizer_step_pre_hook(self._entered)
        self._steps = run.steps()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._after.remove()
        self._before.remove()
        self._session.__exit__(kind, error, trace)

    def next_step(self) -> float:
        """Pass a boundary; returns the seconds that took."""
        began = time.perf_counter()
        self._step = next(self._steps)
        return time.perf_counter() - began

    def wait_durable(self, deadline_s: float = 120.0) -> None:
        """Until the save that the last boundaries began is complete, its pruning included."""
        due = self._step - self._step % self._every
        end = time.monotonic() + deadline_s
        while (self._durable() or 0) < due:
            if time.monotonic() > end:
                raise TimeoutError(f"step {due} was not durable after {deadline_s} s")
            time.sleep(0.001)

    def _durable(self) -> int | None:
        try:
            return json.loads(self._document.read_text())["last_durable_step"]
        except ValueError:
            return None

    def _entering(self, *_: object) -> None:
        self._entered_gate_at = time.perf_counter()

    def _entered(self, *_: object) -> None:
        self.gate_s += time.perf_counter() - self._entered_gate_at


def build_many(root: Path, count: int) -> None:
    """A line with `count` small checkpoints. Made in memory where that exists: a thousand fsyncs prove nothing here."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else root.parent) as made:
        line = EngineLine(Path(made) / "line")
        for step in range(1, count + 1):
            line.save(step, {"step": step, "numbers": list(range(50))})
        shutil.copytree(Path(made) / "line", root)


def _program(training: Training) -> Program:
    return Program(model=training.model, optimizer=training.optimizer)
