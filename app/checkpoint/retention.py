"""Pruning: which checkpoints may go, and in which order their objects go.

Only checkpoints that this attempt verified count: those it committed, and the one it loaded. Whatever ranks below the
`keep` newest of them may go; whatever ranks above, or lies between, stays. So with fewer than `keep` verified ones
nothing is deleted, and the last two verified are never touched (keep >= 2).

A manifest goes before its shards: a kill in between leaves bytes that nothing refers to, never a checkpoint that lost
its bytes. Those orphans go by age, measured with the store's own timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.checkpoint import epochs
from app.checkpoint.names import CHECKPOINTS, SHARDS, Attempt, CheckpointName

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from app.checkpoint.store import Entry, Store

ORPHAN_AGE_S = 3600.0


def expendable(
    present: Collection[CheckpointName],
    verified: Collection[CheckpointName],
    keep: int,
    resumed_from: CheckpointName | None,
    own: Attempt,
) -> list[CheckpointName]:
    """What to delete, oldest first. What the attempt resumed from stays until it has two commits of its own."""
    if keep < 2:
        raise ValueError(f"keep is {keep}; at least the last two verified checkpoints are kept")
    kept = sorted(verified, reverse=True)[:keep]
    if len(kept) < keep:
        return []
    commits = sum(name.attempt == own for name in verified)
    spared = resumed_from if commits < 2 else None
    return sorted(name for name in present if name < kept[-1] and name != spared)


def prune(store: Store, own: Attempt, doomed: Sequence[CheckpointName]) -> None:
    """Delete these, looking before each whether a newer attempt took over. Raises OSError, Superseded."""
    for name in doomed:
        epochs.refuse_if_superseded(store, own)
        store.delete(name.manifest)
        for entry in store.list(name.shards):
            store.delete(entry.name)


def sweep(store: Store, own: Attempt, now_s: float) -> list[str]:
    """Delete torn manifests' and failed saves' leftovers of earlier attempts, an hour old by the store's clock `now_s`.

    Own leftovers stay: a save that is under way looks just like one that failed. Raises OSError, Superseded.
    """
    committed = {CheckpointName.of_manifest(entry.name) for entry in store.list(CHECKPOINTS)}
    orphans = [
        entry
        for entry in store.list(SHARDS)
        if (name := _checkpoint_of(entry)) and name not in committed and _stale(name, entry, now_s, own)
    ]
    for entry in orphans:
        epochs.refuse_if_superseded(store, own)
        store.delete(entry.name)
    return [entry.name for entry in orphans]


def _stale(name: CheckpointName, entry: Entry, now_s: float, own: Attempt) -> bool:
    return name.attempt < own and now_s - entry.modified_s > ORPHAN_AGE_S


def _checkpoint_of(shard: Entry) -> CheckpointName | None:
    return CheckpointName.parse(shard.name.removeprefix(SHARDS).partition("/")[0])
