"""What an attempt does on its line after each commit: prune, sweep, and say how much the line holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app import logs
from app.checkpoint import retention
from app.checkpoint.heads import Heads
from app.checkpoint.names import CHECKPOINTS, SHARDS, CheckpointName, checkpoints_among

if TYPE_CHECKING:
    from app.checkpoint.names import Attempt
    from app.checkpoint.storage.store import Store


@dataclass
class Pruning:
    store: Store
    attempt: Attempt
    keep: int
    keep_every: int | None = None
    _pruned: set[CheckpointName] = field(default_factory=set[CheckpointName])
    """Without manifest, but shards remain: others need them, or could not be asked."""

    def __post_init__(self) -> None:
        self.heads = Heads(self.store)

    def after(
        self, committed: CheckpointName, verified: set[CheckpointName], resumed_from: CheckpointName | None
    ) -> None:
        """What goes is taken out of `verified`. Raises OSError, Superseded."""
        entries = self.store.list(CHECKPOINTS)
        present = checkpoints_among(entries)
        doomed = retention.expendable(present, verified, self.keep, resumed_from, self.attempt)
        if doomed and self.keep_every:
            spared = retention.milestones(present, self.keep_every, self.heads)
            doomed = [name for name in doomed if name not in spared]
        self._pruned.update(doomed)
        verified.difference_update(doomed)
        retention.prune(self.store, self.attempt, doomed)
        self.heads.forget(doomed)
        self._pruned = retention.release(self.attempt, self._pruned, self.heads)
        if len(verified) >= self.keep:
            now_s = next((entry.modified_s for entry in entries if entry.name == committed.manifest), 0.0)
            self._sweep(now_s, len(present) - len(doomed))

    def _sweep(self, now_s: float, checkpoints: int) -> None:
        shards = self.store.list(SHARDS)
        removed = set(retention.sweep(self.attempt, shards, now_s, self.heads))
        if removed:
            logs.info(f"Removed {len(removed)} shards that killed saves had left behind.")
        size = sum(entry.size_bytes for entry in shards if entry.name not in removed)
        logs.info(f"The line holds {checkpoints} checkpoints, {size / 2**20:,.1f} MiB of shards.")
