"""A snapshot becomes a checkpoint: committed to the line, told to the ledger and the log, counted. Or it fails."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app import logs
from app.checkpoint.epochs import Superseded
from app.checkpoint.storage.directory import DirectoryStore, Medium
from app.checkpoint.storage.store import PARALLEL
from app.loop.loan import Moved
from app.loop.snapshot import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.checkpoint.line import Line
    from app.checkpoint.storage.store import Store
    from app.checkpoint.writer import Origin
    from app.clock import Clock
    from app.ledger import Ledger
    from app.loop.snapshot import Snapshot
    from app.shutdown import Shutdown


@dataclass
class Statistics:
    """What saves cost so far."""

    durable_step: int
    """Newest step known to be durable; before the first save, the step that the attempt started from."""
    durable_at_s: float = 0.0
    """When that step was the program's newest."""
    failures_in_a_row: int = 0
    failures: int = 0
    seconds: float = 0.0
    """How long the last save took."""
    redo: bool = False
    """A save was not announced because its tensors changed: the next boundary is saved, whatever the schedule says."""


@dataclass
class Commits:
    """For the saver thread."""

    line: Line
    ledger: Ledger
    origin: Origin
    shutdown: Shutdown
    statistics: Statistics
    last_step: Callable[[], int]
    """The step the program is in, for the ledger."""
    clock: Clock
    error: Exception | None = None
    """Of the last save, if it failed."""

    def commit(self, snapshot: Snapshot, before_publish: Callable[[], None] = lambda: None) -> None:
        """A failure is told and counted. Raises what `before_publish` does when that is Moved."""
        statistics, loan, began = self.statistics, snapshot.loan, self.clock.now_s()
        try:
            streams = _streams(self.line.store, snapshot)
            name = self.line.commit(snapshot.step, snapshot.encoded, self.origin, before_publish, streams=streams)
        except Moved:
            raise
        except Superseded as superseded:
            logs.error(str(superseded))
            self.shutdown.leave(superseded.exit_code, superseded.reason)
        except Exception as error:
            self.failed(snapshot.step, error)
            return
        self.error = None
        statistics.failures_in_a_row = 0
        statistics.durable_step, statistics.durable_at_s = snapshot.step, snapshot.taken_at_s
        statistics.seconds = self.clock.now_s() - began - (loan.proof_s if loan else 0)
        self.ledger.durable(snapshot.step, max(snapshot.step, self.last_step()))
        size = snapshot.encoded.size_bytes
        logs.info(
            f"Checkpoint {name} is durable: {size / 1e6:.1f} MB in {statistics.seconds:.2f} s.",
            step=snapshot.step,
            save_s=round(statistics.seconds, 3),
            save_bytes=size,
            blocked_s=round(snapshot.blocked_s + (loan.waited_s if loan else 0), 4),
            snapshot=snapshot.mode.value,
        )

    def failed(self, step: int, error: Exception) -> None:
        """Tell and count a save that failed; the schedule tries another."""
        statistics, self.error = self.statistics, error
        statistics.failures += 1
        statistics.failures_in_a_row += 1
        detail = str(error) if isinstance(error, OSError) else "".join(traceback.format_exception(error)).rstrip()
        logs.error(
            f"Saving step {step} failed ({detail}); that is failure {statistics.failures}. The last durable checkpoint "
            f"is step {statistics.durable_step}, and the save is tried again.",
            event="save_failed",
            step=step,
        )


def _streams(store: Store, snapshot: Snapshot) -> int:
    """How many shards to write at once: one to a disk while the program computes, which each thread disturbs."""
    is_beside = snapshot.mode in (Mode.EAGER, Mode.DEFERRED)
    is_disk = isinstance(store, DirectoryStore) and store.medium is Medium.DISK
    return 1 if is_beside and is_disk else PARALLEL
