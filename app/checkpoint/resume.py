"""Choosing what to resume from: the newest checkpoint whose content verifies, and never silently nothing.

What can be wrong with a candidate, and what follows:

- torn: its manifest is cut short. It was never committed, or its seal was changed; ignored with a warning.
- damaged: content differs from its checksum or makes no sense, or a shard is missing, and a second, fresh read says so
  too. Recorded in quarantine; the next older one is tried. Nothing is moved or deleted.
- vanished: an object is gone, as when a newer attempt prunes. The line is listed again.
- unreadable: EIO, EACCES, a timeout. Tried again; then the attempt ends and the platform's retry resumes. Never a
  reason to fall back to an older checkpoint.
- unsupported: a format of another version. Refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from app import logs
from app.checkpoint import quarantine, reader
from app.checkpoint.manifest import Damaged, Torn, Unsupported
from app.checkpoint.names import CHECKPOINTS, LATEST, QUARANTINE, checkpoints_among
from app.checkpoint.storage.patience import StoreUnavailable, patiently
from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from app.checkpoint.manifest import Head
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.reader import Into, Loaded
    from app.checkpoint.storage.store import Store
    from app.checkpoint.table import Table

T = TypeVar("T")

LISTINGS = 3
SECOND_READ_AFTER_S = 0.2


class NothingLoads(Refusal):
    """Checkpoints were committed and none can be used: starting from step 0 would hide the loss."""


@dataclass
class Filling:
    """Fills the program's own tensors, and knows whether they hold bytes that were not believed in the end.

    A reading that fails leaves them half filled, which is right while what follows is another reading, or the end.
    """

    into: Into | None
    half_filled_by: str | None = None

    def __call__(self, head: Head, table: Table) -> Mapping[str, torch.Tensor]:
        """See reader.py."""
        given = self.into(head, table) if self.into else {}
        if given:
            self.half_filled_by = head.name
        return given

    def refuse_what_is_half_filled(self) -> None:
        """When nothing was loaded after all. Raises StoreUnavailable."""
        if self.half_filled_by:
            raise StoreUnavailable(
                f"Checkpoint {self.half_filled_by} vanished while it was read into the program's tensors, and no other "
                "is there. They hold a part of it, so nothing may start from them. Ending; a retry begins anew."
            )


@dataclass(frozen=True)
class Resumer:
    """One search for a checkpoint. `sleep` is replaced in tests."""

    store: Store
    found_by: str
    """The attempt that searches, for the quarantine record."""
    sleep: Callable[[float], None] = time.sleep
    check: Callable[[Loaded], None] = lambda _loaded: None
    """Raises Damaged for a state that decodes and makes no sense."""
    load: Callable[[Store, CheckpointName], Loaded] = reader.load
    torn: list[str] = field(default_factory=list[str])
    """Of the last listing."""

    def newest(self, *, ever_committed: bool) -> Loaded | None:
        """The newest checkpoint that verifies, or None on a line where nothing was ever committed.

        `ever_committed` is what the ledger knows: a line whose only manifest is now unreadable must not start over.
        What else on the line is only ever written after a commit counts as well.
        Raises NothingLoads, StoreUnavailable, Refusal.
        """
        for _ in range(LISTINGS):
            reasons = list[str]()
            self.torn.clear()
            try:
                found = self._first_sound(reasons)
            except FileNotFoundError as vanished:
                logs.info(f"{vanished.filename} vanished while it was read; listing again.")
                continue
            if found is None and (reasons or (reasons := self._evidence(ever_committed=ever_committed))):
                raise NothingLoads(_nothing_loads(reasons))
            return found
        raise StoreUnavailable(
            "Checkpoints vanished while they were read, several times. Ending; a retry lists them again."
        )

    def _first_sound(self, reasons: list[str]) -> Loaded | None:
        quarantined = self._quarantined()
        for name in self._candidates():
            if name in quarantined:
                reasons.append(f"{name}: {self._reason_on_record(name)}")
                continue
            try:
                return self._verified(name)
            except Torn as torn:
                logs.warning(f"Ignoring {name}: its save did not finish ({torn}).")
                self.torn.append(str(name))
            except Unsupported as other:
                raise Refusal(
                    f"Checkpoint {name} cannot be used: {other}. It was written by another version of this program or "
                    "of torch; run that version, or start a new line under another CHECKPOINT_DIR. Nothing was changed."
                ) from other
            except Damaged as damaged:
                reasons.append(f"{name}: {damaged}")
                self._quarantine(name, str(damaged))
        return None

    def _evidence(self, *, ever_committed: bool) -> list[str]:
        """What says that there was a checkpoint, although no manifest does; empty if nothing was ever committed.

        Shards without a manifest say nothing: an attempt that died in its first save leaves those.
        """
        found = [f"{name}: its manifest is cut short" for name in self.torn]
        told = list[str]()
        if ever_committed:
            told.append("the ledger says that there was a durable step")
        if self._quarantined():
            told.append(f"{QUARANTINE} holds records of checkpoints")
        if self._patiently(lambda: self._is_there(LATEST)):
            told.append(f"{LATEST}, which is only written after a commit, is there")
        return [*found, *told] if told else []

    def _is_there(self, name: str) -> bool:
        try:
            self.store.open(name).close()
        except OSError as error:
            if error.errno in reader.NO_OBJECT:
                return False
            raise
        return True

    def _candidates(self) -> Sequence[CheckpointName]:
        """Newest first. Files whose names are not a checkpoint's are none of ours."""
        return sorted(checkpoints_among(self._patiently(lambda: self.store.list(CHECKPOINTS))), reverse=True)

    def _quarantined(self) -> set[CheckpointName]:
        return self._patiently(lambda: quarantine.recorded(self.store))

    def _reason_on_record(self, name: CheckpointName) -> str:
        return self._patiently(lambda: quarantine.reason(self.store, name))

    def _verified(self, name: CheckpointName) -> Loaded:
        try:
            return self._patiently(lambda: self._load(name))
        except Damaged:
            self.sleep(SECOND_READ_AFTER_S)
            return self._patiently(lambda: self._load(name))

    def _load(self, name: CheckpointName) -> Loaded:
        with reader.telling_absence(self.store, name):
            loaded = self.load(self.store, name)
        self.check(loaded)
        return loaded

    def _patiently(self, action: Callable[[], T]) -> T:
        return patiently(action, "Reading checkpoints", but=(FileNotFoundError,), sleep=self.sleep)

    def _quarantine(self, name: CheckpointName, reason: str) -> None:
        logs.error(
            f"Checkpoint {name} is damaged: {reason}. It is left in place, recorded in quarantine, and not used."
        )
        try:
            quarantine.record(self.store, name, reason, self.found_by)
        except OSError as error:
            logs.warning(f"The quarantine record of {name} could not be written ({error}); it will be found again.")


def _nothing_loads(reasons: Sequence[str]) -> str:
    listed = "".join(f"\n  {reason}" for reason in reasons)
    return (
        f"Checkpoints were committed on this line and none of them loads:{listed}\n"
        "Nothing on the line was changed. Restore the objects (bucket versioning or a copy), and delete the record "
        f"{QUARANTINE}NAME.json of each that is to be looked at again: a checkpoint with a record is not read. Or, to "
        "accept the loss and start from step 0, use another CHECKPOINT_DIR or delete this line's directory."
    )
