"""An attempt's start on its checkpoint line, before torch: storage there, work left, progress made, epoch claimed."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from app import ledger, logs
from app.checkpoint import line
from app.checkpoint.storage import opening
from app.checkpoint.storage.patience import patiently
from app.clock import REAL, Clock
from app.contract import Refusal, Task
from app.ledger import Ledger
from app.place import BucketPath

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.checkpoint.prefetch import Prefetch
    from app.checkpoint.storage.store import Store

T = TypeVar("T")

_FORBIDDEN = (
    "this account may not write there. Grant roles/storage.objectUser on the bucket to the job's service account"
)
_FREE = (
    "on this line what lies in .staging/, and folders of shards/ without a manifest of their name in checkpoints/, may "
    "go; no checkpoint was touched"
)
_HOPELESS = {
    errno.EROFS: "it is read-only. Mount it writable (readOnly must be off), or choose another directory",
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.ENOSPC: f"it is full. Give it a larger disk, or free space: {_FREE}",
    errno.EDQUOT: f"its quota is used up. Raise it, or free space: {_FREE}",
}


@dataclass(frozen=True)
class Start:
    """An attempt that holds its epoch."""

    task: Task
    store: Store
    ledger: Ledger
    ever_committed: bool
    """Whether an earlier attempt knew a durable step."""
    clock: Clock = REAL
    left_at_step: int | None = None
    """The step in which the attempt before ended, where that is known."""
    ahead: Prefetch | None = None
    """The newest checkpoint, as far as it was read already."""


def open_store(task: Task, clock: Clock = REAL) -> Store:
    """The task's line, made if need be inside CHECKPOINT_DIR. Raises Refusal, StoreUnavailable."""
    root = task.checkpoint_dir
    if not _writing(root, lambda: opening.is_there(root), clock):
        raise Refusal(opening.absent(root))
    _writing(root, lambda: opening.make_line(task.line), clock)
    return _writing(root, lambda: opening.open_store(task.line), clock)


def begin(task: Task, store: Store, clock: Clock = REAL, ahead: Prefetch | None = None) -> Start:
    """Check the breaker and claim an epoch. Raises Refusal (NoProgress among them), StoreUnavailable."""
    before = _writing(task.line, lambda: ledger.read_all(store), clock)
    _writing(task.line, lambda: ledger.refuse_without_progress(store, before, task), clock)
    opened = _writing(task.line, lambda: Ledger.open(store, task), clock)
    logs.label(attempt=str(opened.attempt), task_index=task.index)
    if task.execution:
        logs.info(f"{task.execution}, task {task.index}, {task.which_attempt}: begins as {opened.attempt}.")
    return Start(task, store, opened, ledger.ever_committed(before), clock, ledger.left_at_step(before), ahead)


def finished(task: Task, store: Store, total_steps: int) -> dict[str, Any] | None:
    """What done.json says if the line has reached `total_steps` already, or finished early when so many were asked."""
    return _if_of(_writing(task.line, lambda: line.finished(store), REAL), total_steps)


def finished_as_read(store: Store, total_steps: int, clock: Clock) -> dict[str, Any] | None:
    """The same once the line was written to: what cannot be read then is trouble that may pass."""
    return _if_of(patiently(lambda: line.finished(store), "Reading done.json", sleep=clock.sleep), total_steps)


def _if_of(done: dict[str, Any] | None, total_steps: int) -> dict[str, Any] | None:
    if done is None:
        return None
    return done if done["step"] >= total_steps or done.get("total_steps") == total_steps else None


def _writing(where: object, action: Callable[[], T], clock: Clock) -> T:
    """Patiently, but refusing at once what waiting cannot mend."""

    def or_refused() -> T:
        try:
            return action()
        except OSError as error:
            if error.errno in _HOPELESS:
                in_bucket = isinstance(where, BucketPath)  # whose errors say themselves what to do
                why = error.strerror if in_bucket else f"{_HOPELESS[error.errno]}. ({error})"
                raise Refusal(f"Checkpoints cannot be kept in {where}: {why}") from error
            raise

    return patiently(or_refused, f"Using {where}", sleep=clock.sleep)
