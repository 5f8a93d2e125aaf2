"""Records of damaged checkpoints: a checkpoint that has one is passed over. Nothing is moved."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from app.checkpoint.names import QUARANTINE, CheckpointName
from app.checkpoint.storage.store import document
from app.clock import now_rfc3339

if TYPE_CHECKING:
    from app.checkpoint.storage.store import Store


def record(store: Store, name: CheckpointName, reason: str, found_by: str) -> None:
    """The first record stays. Raises OSError."""
    fields = {"format": 1, "name": str(name), "reason": reason, "found_by": found_by, "found_at": now_rfc3339()}
    with suppress(FileExistsError):
        store.publish(name.record, json.dumps(fields).encode())


def recorded(store: Store) -> set[CheckpointName]:
    """A record stands for its checkpoint by its name; its content is only the reason. Raises OSError."""
    return {name for entry in store.list(QUARANTINE) if (name := CheckpointName.of_record(entry.name))}


def reason(store: Store, name: CheckpointName) -> str:
    """What its record says. Raises OSError."""
    found = document(store, name.record, {})
    if found is None:
        return f"in quarantine since an earlier attempt; its record {name.record} is torn"
    return f"{found.get('reason')} (found by {found.get('found_by')} at {found.get('found_at')})"
