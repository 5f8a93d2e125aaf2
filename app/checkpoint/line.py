"""One task's checkpoint line: an attempt's way to resume, commit, mark the end, and prune."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from app import logs
from app.checkpoint import checked_document, reader, writer
from app.checkpoint.manifest import Manifest
from app.checkpoint.meaning import refuse_senseless
from app.checkpoint.names import CHECKPOINTS, DONE, LATEST, CheckpointName, checkpoints_among
from app.checkpoint.pruning import Pruning
from app.checkpoint.resume import Filling, Resumer
from app.checkpoint.storage.store import PARALLEL, Kinds, document
from app.clock import now_rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.checkpoint.codec import Encoded
    from app.checkpoint.names import Attempt
    from app.checkpoint.reader import Into, Loaded
    from app.checkpoint.shards.stripes import Ahead
    from app.checkpoint.storage.store import Store
    from app.checkpoint.writer import Origin


@dataclass
class Line:
    """Used by one thread at a time."""

    store: Store
    attempt: Attempt
    keep: int = 3
    """How many verified checkpoints stay."""
    sleep: Callable[[float], None] = time.sleep
    """Between tries to read; replaced in tests."""
    check: Callable[[Loaded], None] = refuse_senseless
    """Raises Damaged for a state that decodes and makes no sense."""
    keep_every: int | None = None
    """One checkpoint of every so many steps stays besides."""
    _verified: set[CheckpointName] = field(default_factory=set[CheckpointName])
    _resumed_from: CheckpointName | None = None
    _tries: dict[int, int] = field(default_factory=dict[int, int])
    _kept: writer.Kept = field(default_factory=writer.Kept)

    def __post_init__(self) -> None:
        self._pruning = Pruning(self.store, self.attempt, self.keep, self.keep_every)

    def resume(self, *, ever_committed: bool, into: Into | None = None, ahead: Ahead | None = None) -> Loaded | None:
        """The newest checkpoint that verifies; see resume.py for what it raises, reader.py for `into` and `ahead`."""
        filling = Filling(into)
        load = partial(reader.load, into=filling if into else None, ahead=ahead)
        search = Resumer(self.store, str(self.attempt), self.sleep, self.check, load)
        loaded = search.newest(ever_committed=ever_committed)
        if loaded:
            self.resumed_from(loaded.name)
            self._kept.known.learn(loaded.head)
            self._pruning.heads.learn(loaded.name, loaded.head)
        else:
            filling.refuse_what_is_half_filled()
        return loaded

    def resumed_from(self, name: CheckpointName) -> None:
        """This checkpoint was verified, and the attempt goes on from it: pruning must spare it."""
        self._resumed_from = name
        self._verified.add(name)

    def commit(
        self,
        step: int,
        state: Encoded,
        origin: Origin,
        before_publish: Callable[[], None] = lambda: None,
        *,
        streams: int = PARALLEL,
    ) -> CheckpointName:
        """Write and announce the state after `step` steps. Raises OSError (nothing was announced) and Superseded."""

        def write(name: CheckpointName) -> Manifest:
            return writer.commit(self.store, name, state, origin, before_publish, kept=self._kept, streams=streams)

        return self.commit_by(step, write)

    def commit_by(self, step: int, write: Callable[[CheckpointName], object]) -> CheckpointName:
        """Have `write` write and announce a checkpoint under the name it is given; what it raises ends the save."""
        save_try = self._tries.get(step, 0)
        self._tries[step] = save_try + 1
        name = CheckpointName.of(self.attempt, step, save_try)
        try:
            made = write(name)
        except Exception:
            self._clear_away(name)
            raise
        self._verified.add(name)
        if isinstance(made, Manifest):
            self._pruning.heads.learn(name, made.head)
        self._after_commit(name)
        return name

    def finish(self, document: dict[str, Any]) -> None:
        """Mark the whole work as complete. Raises OSError."""
        self.store.replace(DONE, checked_document.encode(document))

    def _after_commit(self, name: CheckpointName) -> None:
        """Hint and pruning: the checkpoint is durable already, so trouble here is told and survived."""
        hint = {
            "format": 1,
            "name": str(name),
            "step": name.step,
            "at": now_rfc3339(),
        }
        try:
            self.store.replace(LATEST, json.dumps(hint).encode())
        except OSError as error:  # pruning comes all the same: on a full disk it is what makes room
            logs.warning(f"Checkpoint {name} is safe, but the hint {LATEST} could not be written: {error}.")
        try:
            self._pruning.after(name, self._verified, self._resumed_from)
        except OSError as error:
            logs.warning(
                f"Checkpoint {name} is safe, but pruning older ones failed: {error}. The next save tries again."
            )

    def _clear_away(self, name: CheckpointName) -> None:
        """Free the bytes of a failed save, unless its manifest may have come into being after all."""
        with suppress(OSError):
            if name not in checkpoints_among(self.store.list(CHECKPOINTS)):
                for entry in self.store.list(name.shards):
                    self.store.delete(entry.name)


def finished(store: Store) -> dict[str, Any] | None:
    """The content of done.json, or None while the work is not complete. Raises OSError.

    A torn or changed one counts as absent, and so does one without a manifest of its step or a later one: it says
    nothing true.
    """
    done = document(store, DONE, _DONE_KINDS)
    if done is None:
        return None
    if not checked_document.is_unchanged(done):
        logs.warning(f"{DONE} is not as it was written: not believed.")
        return None
    if any(name.step >= done["step"] for name in checkpoints_among(store.list(CHECKPOINTS))):
        return done
    logs.warning(f"{DONE} says that step {done['step']} is complete, but there is no checkpoint of it: not believed.")
    return None


_DONE_KINDS: Kinds = {"step": (int,), "total_steps": (int, type(None)), "identity": (dict,)}
