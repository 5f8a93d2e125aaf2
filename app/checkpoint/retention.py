"""Pruning: which checkpoints may go, and in which order their objects go.

Only checkpoints that this attempt verified count: those it committed, and the one it loaded. Whatever ranks below the
`keep` newest of them may go; whatever ranks above, or lies between, stays. So with fewer than `keep` verified ones
nothing is deleted, and the last two verified are never touched (keep >= 2). Of every `keep_every` steps one checkpoint
stays besides, whichever attempt wrote it.

A manifest goes before its shards: a kill in between leaves bytes that nothing refers to, never a checkpoint that lost
its bytes. A shard goes only when no manifest that is there needs it, be it of its own checkpoint or of a later one that
refers to it; while the head of one of them cannot be read, none goes. What a killed attempt left behind goes by age,
measured with the store's own timestamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.checkpoint import epochs, quarantine
from app.checkpoint.names import CHECKPOINTS, SHARDS, Attempt, CheckpointName, checkpoints_among

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from app.checkpoint.heads import Heads
    from app.checkpoint.storage.store import Entry, Store

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


def milestones(present: Iterable[CheckpointName], every: int, heads: Heads) -> set[CheckpointName]:
    """Those that stay of the checkpoints that are whole and not in quarantine.

    They are not read again: what they hold was verified when it was written. Raises OSError.
    """
    quarantined = quarantine.recorded(heads.store)
    return firsts((name for name in present if name not in quarantined and heads.of(name)), every)


def firsts(names: Iterable[CheckpointName], every: int) -> set[CheckpointName]:
    """The first at or past each multiple of `every` steps; of several of one step the newest.

    Not only exact multiples: after a stop at step 5, saves every 10 steps come at 15, 25, ...
    """
    found = dict[int, CheckpointName]()
    for name in sorted(names, key=lambda name: (-name.step, name)):
        if name.step >= every:
            found[name.step // every] = name
    return set(found.values())


def prune(store: Store, own: Attempt, doomed: Iterable[CheckpointName]) -> None:
    """Delete these manifests, looking before each whether a newer attempt took over. Raises OSError, Superseded."""
    for name in doomed:
        epochs.refuse_if_superseded(store, own)
        store.delete(name.manifest)


def release(own: Attempt, pruned: Collection[CheckpointName], heads: Heads) -> set[CheckpointName]:
    """Delete the shards of checkpoints whose manifests are gone, as far as no other needs them.

    Returns those of which some remain. Raises OSError, Superseded.
    """
    if not pruned:
        return set()
    store = heads.store
    needed = heads.shards_of(checkpoints_among(store.list(CHECKPOINTS)))
    if needed is None:
        return set(pruned)
    remain = set[CheckpointName]()
    for name in sorted(pruned):
        for entry in store.list(name.shards):
            if entry.name in needed:
                remain.add(name)
            else:
                epochs.refuse_if_superseded(store, own)
                store.delete(entry.name)
    return remain


def sweep(own: Attempt, entries: Iterable[Entry], now_s: float, heads: Heads) -> list[str]:
    """Of `entries`, the line's shards, delete what failed saves and cut prunings of earlier attempts left behind.

    If it is an hour old by the store's clock `now_s` and no manifest needs it. Own leftovers stay: a save that is under
    way looks just like one that failed. Raises OSError, Superseded.
    """
    store = heads.store
    old = [
        entry
        for entry in entries
        if (name := _checkpoint_of(entry)) and name.attempt < own and now_s - entry.modified_s > ORPHAN_AGE_S
    ]
    if not old:
        return []
    present = checkpoints_among(store.list(CHECKPOINTS))
    committed = set(present)
    orphans = [entry.name for entry in old if _checkpoint_of(entry) not in committed]
    needed = heads.shards_of(present) if orphans else None
    if needed is None:
        return []
    removed = [name for name in orphans if name not in needed]
    for name in removed:
        epochs.refuse_if_superseded(store, own)
        store.delete(name)
    return removed


def _checkpoint_of(shard: Entry) -> CheckpointName | None:
    return CheckpointName.parse(shard.name.removeprefix(SHARDS).partition("/")[0])
