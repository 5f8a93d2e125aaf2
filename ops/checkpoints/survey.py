"""What lies on a line: each checkpoint with its state, and all that is stored. Content is read only where asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from ops.errors import MissingError, RefusedError

if TYPE_CHECKING:
    from app.checkpoint.manifest import Head
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.storage.store import Entry, Store

READERS = 8
"""Manifests read at once: on a bucket each is a request."""


class State(StrEnum):
    """What is known of a checkpoint's content."""

    UNKNOWN = "not looked at"
    VERIFIED = "verified"
    DAMAGED = "damaged"
    QUARANTINED = "quarantined"
    TORN = "torn"
    UNSUPPORTED = "another version's"
    PRUNED = "pruned"
    """While it was looked at, as a running job does."""


@dataclass(frozen=True)
class Found:
    """One manifest. Without a head nothing more is known than its name."""

    name: CheckpointName
    state: State
    reason: str = ""
    head: Head | None = None
    shared: int = 0
    """How many of its shards other checkpoints refer to as well."""


@dataclass(frozen=True)
class Survey:
    found: tuple[Found, ...]
    """Newest first."""
    entries: tuple[Entry, ...]
    """Every object of the line."""

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def unreferenced_bytes(self) -> int:
        """Shards of no checkpoint: a save that is under way, or what one left that was killed."""
        from app.checkpoint.names import SHARDS

        used = {shard.name for each in self.found if each.head for shard in each.head.shards}
        return sum(e.size_bytes for e in self.entries if e.name.startswith(SHARDS) and e.name not in used)


def survey(store: Store) -> Survey:
    """Raises OSError."""
    from app.checkpoint import quarantine
    from app.checkpoint.names import checkpoints_among

    entries = store.list("")
    names = sorted(checkpoints_among(entries), reverse=True)
    with ThreadPoolExecutor(READERS) as pool:
        found = {each.name: each for each in pool.map(partial(_look, store), names) if each}
    for name in quarantine.recorded(store) & found.keys():
        found[name] = replace(found[name], state=State.QUARANTINED, reason=quarantine.reason(store, name))
    used = Counter(shard.name for each in found.values() if each.head for shard in each.head.shards)
    return Survey(tuple(_counted(each, used) for each in found.values()), tuple(entries))


def _counted(each: Found, used: Mapping[str, int]) -> Found:
    shards = each.head.shards if each.head else ()
    return replace(each, shared=sum(used[shard.name] > 1 for shard in shards))


def looked_at(store: Store, each: Found, seen: Callable[[int], None] = lambda _: None) -> Found:
    """With its content read. A quarantined one keeps its record, whatever is found now. Raises OSError."""
    from app.checkpoint.manifest import Damaged, Torn, Unsupported
    from app.checkpoint.verifying import verify

    if each.state in {State.TORN, State.UNSUPPORTED}:
        return each
    try:
        verify(store, each.name, seen)
    except Torn as torn:
        return replace(each, state=State.TORN, reason=str(torn))
    except Unsupported as other:
        return replace(each, state=State.UNSUPPORTED, reason=str(other))
    except Damaged as damaged:
        return replace(each, state=State.DAMAGED, reason=str(damaged))
    except FileNotFoundError:
        return replace(each, state=State.PRUNED, reason="it was deleted while it was looked at")
    return each if each.state is State.QUARANTINED else replace(each, state=State.VERIFIED, reason="")


def choose(found: tuple[Found, ...], typed: str, where: str) -> Found:
    """By name, by the beginning of a name, or by step. Raises MissingError, RefusedError when several fit."""
    fitting = [each for each in found if str(each.name) == typed]
    fitting = fitting or [each for each in found if typed.isdecimal() and each.name.step == int(typed)]
    fitting = fitting or [each for each in found if str(each.name).startswith(typed)]
    if not fitting:
        raise MissingError(
            f"{where} has no checkpoint {typed}. Nothing was changed. `gpujob checkpoints list {where}` shows the "
            f"{len(found)} there are."
        )
    if len(fitting) > 1:
        names = ", ".join(str(each.name) for each in fitting)
        raise RefusedError(f"{typed} may be any of {names}. Nothing was changed. Give the whole name.")
    return fitting[0]


def newest(found: tuple[Found, ...], where: str) -> Found:
    """The newest that is not known to be unusable. Raises MissingError."""
    for each in found:
        if each.state is State.UNKNOWN:
            return each
    raise MissingError(
        f"{where} has no checkpoint that could be used ({len(found)} manifests). Nothing was changed. "
        f"`gpujob checkpoints list {where}` shows why."
    )


def _look(store: Store, name: CheckpointName) -> Found | None:
    from app.checkpoint.manifest import Damaged, Torn, Unsupported
    from app.checkpoint.reader import read_manifest

    try:
        return Found(name, State.UNKNOWN, head=read_manifest(store, name).head)
    except Torn as torn:
        return Found(name, State.TORN, str(torn))
    except Damaged as damaged:
        return Found(name, State.DAMAGED, str(damaged))
    except Unsupported as other:
        return Found(name, State.UNSUPPORTED, str(other))
    except FileNotFoundError:
        return None  # pruned this very moment
