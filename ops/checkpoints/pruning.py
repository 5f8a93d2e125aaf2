"""`gpujob checkpoints prune`: deletes what ranks below the newest that verify, in the order that never loses one."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ops.checkpoints.survey import Found, State, Survey, looked_at, survey
from ops.checkpoints.verifying import progress
from ops.checkpoints.where import Place
from ops.errors import MisconfiguredError, NotSucceededError, RefusedError
from ops.text import size_text

if TYPE_CHECKING:
    from app.checkpoint.names import Attempt
    from app.checkpoint.storage.store import Store

LEAST = 2
"""So many that verify always stay."""
RECENT_S = 3600.0
"""An attempt whose ledger document has no end counts as active until nothing came from it for so long."""


@dataclass(frozen=True)
class Plan:
    """What would go, oldest first, and the shards that nothing refers to then."""

    doomed: tuple[Found, ...]
    shards: tuple[str, ...]
    freed_bytes: int
    kept: int


def prune(
    place: Place, keep: int, keep_every: int | None, say: Callable[[str], None], *, dry_run: bool, now_s: float
) -> None:
    """Raises OpsError, and what storage and engine raise."""
    if keep < LEAST or (keep_every is not None and keep_every < 1):
        raise MisconfiguredError(
            f"--keep must be {LEAST} or more: at least the last {LEAST} that verify stay; --keep-every 1 or more. "
            "Nothing was changed."
        )
    own = _newest_attempt(place.store)
    if not dry_run:
        _refuse_while_active(place, own, now_s)
    found = survey(place.store)
    plan = _plan(place, found, keep, keep_every)
    for each in plan.doomed:
        size = size_text(each.head.size_bytes) if each.head else "size not known"
        say(f"{each.name}  {'would go' if dry_run else 'goes'}: {each.state}, {size}")
    if not dry_run:
        _delete(place.store, own, plan)
    verb = "would free" if dry_run else "freed"
    say(
        f"{place.url}: {len(plan.doomed)} of {len(found.found)} checkpoints, {verb} {size_text(plan.freed_bytes)}. "
        f"{plan.kept} stay."
    )


def _plan(place: Place, found: Survey, keep: int, keep_every: int | None) -> Plan:
    """Verifies from the newest on until `keep` are sound; what ranks below those may go. Raises NotSucceededError."""
    if other := [each for each in found.found if each.state is State.UNSUPPORTED]:
        raise RefusedError(
            f"{other[0].name} was written by another version, so what it refers to is not known ({other[0].reason}). "
            "Nothing was deleted. Prune with that version."
        )
    sound = 0
    below: tuple[Found, ...] = ()
    with progress(sum(each.head.size_bytes for each in found.found[:keep] if each.head)) as seen:
        for index, each in enumerate(found.found):
            sound += looked_at(place.store, each, seen).state is State.VERIFIED
            if sound == keep:
                below = found.found[index + 1 :]
                break
    if sound < keep:
        raise NotSucceededError(
            f"Only {sound} of the {len(found.found)} checkpoints of {place.url} verify, which is fewer than the {keep} "
            "to keep. Nothing was deleted."
        )
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.retention import firsts

    whole = (each.name for each in found.found if each.state in {State.UNKNOWN, State.VERIFIED})
    spared = firsts(whole, keep_every) if keep_every else set[CheckpointName]()
    doomed = tuple(each for each in reversed(below) if each.name not in spared)
    return _freed(found, doomed)


def _freed(found: Survey, doomed: Collection[Found]) -> Plan:
    from app.checkpoint.names import SHARDS

    gone = {each.name for each in doomed}
    stay = [each for each in found.found if each.name not in gone]
    used = {shard.name for each in stay if each.head for shard in each.head.shards}
    theirs = {shard.name for each in doomed if each.head for shard in each.head.shards}
    folders = tuple(each.name.shards for each in doomed)
    entries = [
        entry
        for entry in found.entries
        if entry.name.startswith(SHARDS)
        and entry.name not in used
        and (entry.name in theirs or entry.name.startswith(folders))
    ]
    manifests = {each.name.manifest for each in doomed}
    size = sum(e.size_bytes for e in entries) + sum(e.size_bytes for e in found.entries if e.name in manifests)
    return Plan(tuple(doomed), tuple(entry.name for entry in entries), size, len(stay))


def _delete(store: Store, own: Attempt, plan: Plan) -> None:
    """Manifests before shards: a kill in between leaves bytes that nothing refers to. Raises OSError, Superseded."""
    from app.checkpoint import epochs

    for name in (*(each.name.manifest for each in plan.doomed), *plan.shards):
        epochs.refuse_if_superseded(store, own)
        store.delete(name)


def _newest_attempt(store: Store) -> Attempt:
    from app.checkpoint import epochs
    from app.checkpoint.names import Attempt

    return max(epochs.attempts(store), default=Attempt(0, "000000"))


def _refuse_while_active(place: Place, newest: Attempt, now_s: float) -> None:
    """Raises RefusedError."""
    from app import ledger

    ended = {(each.epoch, each.nonce) for each in ledger.read_all(place.store) if each.ended_at is not None}
    if (newest.epoch, newest.nonce) in ended:
        return
    of_it = [entry.modified_s for entry in place.store.list("") if str(newest) in entry.name]
    idle_s = now_s - max(of_it, default=0.0)
    if idle_s < RECENT_S:
        raise RefusedError(
            f"Attempt {newest} seems to work on {place.url}: its ledger document has no end, and it wrote "
            f"{max(0, idle_s) / 60:.0f} minutes ago. Nothing was deleted. The worker prunes by itself; stop it first "
            "(gpujob cancel), or wait an hour if it was killed. --dry-run shows what would go."
        )


def now() -> float:
    """Unix seconds; a store's clock is taken to be near it."""
    return time.time()
