"""The ledger: one document an attempt, the durable progress of all of them, and the verdict that stops a crash loop."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from app import logs
from app.checkpoint import epochs
from app.checkpoint.names import Attempt
from app.checkpoint.storage.store import Kinds, document
from app.clock import now_rfc3339
from app.contract import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.checkpoint.storage.store import Store
    from app.contract import Task

VERDICT = "verdict.json"
_WHAT_NOW = "The last checkpoint is safe. Read its error in the log, mend it, and start a new execution."
FAILURES = 3
"""So many attempts of one execution in a row that failed without a new durable step are a verdict."""


class NoProgress(Refusal):
    """The breaker: the program fails every time at the same place, and each attempt is billed."""


@dataclass(frozen=True)
class Record:
    """One attempt, as its document in the ledger says."""

    epoch: int
    nonce: str
    job: str
    execution: str
    task_index: int
    platform_attempt: int
    started_at: str
    resumed_from_step: int | None = None
    resumed_from: str | None = None
    last_step: int = 0
    last_durable_step: int | None = None
    """Newest step this attempt knows to be durable: what it resumed from, or what it committed since."""
    ended_at: str | None = None
    exit_code: int | None = None
    reason: Reason | None = None
    """None: under way, or killed without notice; with `ended_at`: at the end of a script that did not say more."""
    format: int = 1

    @property
    def made_progress(self) -> bool:
        return self.last_durable_step is not None and self.last_durable_step > (self.resumed_from_step or 0)

    def encode(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()


class Ledger:
    """This attempt's document, kept up to date. Trouble with it is told and survived: truth is in the manifests.

    Its methods may be called from several threads: the saver knows what is durable, others how the attempt ends.
    """

    def __init__(self, store: Store, attempt: Attempt, record: Record) -> None:
        self.attempt = attempt
        self.record = record
        self._store = store
        self._lock = threading.Lock()

    @classmethod
    def open(cls, store: Store, task: Task) -> Ledger:
        """Claim an epoch for this attempt. Raises OSError."""

        def first(attempt: Attempt) -> Record:
            return Record(
                epoch=attempt.epoch,
                nonce=attempt.nonce,
                job=task.job,
                execution=task.execution,
                task_index=task.index,
                platform_attempt=task.attempt,
                started_at=now_rfc3339(),
            )

        attempt = epochs.claim(store, lambda claimed: first(claimed).encode())
        return cls(store, attempt, first(attempt))

    def resumed(self, name: str, step: int) -> None:
        with self._lock:
            self._update(resumed_from=name, resumed_from_step=step, last_step=step, last_durable_step=step)

    def durable(self, step: int, last_step: int) -> None:
        with self._lock:
            self._update(last_durable_step=step, last_step=last_step)

    def end(self, code: int | None, reason: Reason | None, last_step: int) -> None:
        """The first end counts. None for what is not known of it."""
        with self._lock:
            if self.record.ended_at is None:
                code = None if code is None else int(code)
                self._update(ended_at=now_rfc3339(), exit_code=code, reason=reason, last_step=last_step)

    def _update(self, **changes: Any) -> None:
        """Under the lock until it is written: what was true before must not be written over what is true now."""
        self.record = replace(self.record, **changes)
        try:
            self._store.replace(self.attempt.document, self.record.encode())
        except OSError as error:
            logs.warning(
                f"The ledger document {self.attempt.document} could not be written: {error}. Checkpoints are safe."
            )


def read_all(store: Store) -> list[Record]:
    """Every attempt's record, oldest first; torn documents are left out. Raises OSError."""
    known = {each.name for each in fields(Record)}
    records = list[Record]()
    for attempt in epochs.attempts(store):
        content = document(store, attempt.document, _KINDS)
        if content is not None:
            record = Record(**{key: value for key, value in content.items() if key in known})
            records.append(replace(record, reason=_reason(content.get("reason"))))
    return records


_NONE = type(None)
_KINDS: Kinds = {
    **dict.fromkeys(("epoch", "task_index", "platform_attempt", "last_step"), (int,)),
    **dict.fromkeys(("nonce", "job", "execution", "started_at"), (str,)),
    **dict.fromkeys(("resumed_from_step", "last_durable_step", "exit_code"), (int, _NONE)),
    **dict.fromkeys(("resumed_from", "ended_at", "reason"), (str, _NONE)),
}


def _reason(told: str | None) -> Reason | None:
    """A reason that only another version knows counts as none: the breaker then neither counts nor excuses it."""
    return Reason(told) if told in set(Reason) else None


def ever_committed(records: Sequence[Record]) -> bool:
    """Whether some attempt knew a durable step."""
    return any(record.last_durable_step is not None for record in records)


def left_at_step(records: Sequence[Record]) -> int | None:
    """The step in which the last of these ended; None where it could not tell, or there was none."""
    return records[-1].last_step if records and records[-1].ended_at is not None else None


def refuse_without_progress(store: Store, records: Sequence[Record], task: Task) -> None:
    """The breaker. `records` are the attempts before this one. Raises NoProgress.

    It looks at this execution only: starting another one is a person's decision to try again.
    """
    if not task.execution:
        return
    verdict = document(store, VERDICT, {"execution": (str,), "message": (str, _NONE)})
    if verdict is not None and verdict["execution"] == task.execution:
        raise NoProgress(
            verdict.get("message") or f"{VERDICT} says that {task.execution} made no progress. {_WHAT_NOW}"
        )
    failures = _failures_in_a_row([record for record in records if record.execution == task.execution])
    if failures < FAILURES:
        return
    message = (
        f"{failures} attempts in a row failed without a new durable step, so trying again costs money and helps "
        f"nothing. The last was e{records[-1].epoch:04d}. {_WHAT_NOW}"
    )
    content = {"format": 1, "execution": task.execution, "message": message, "failures": failures, "at": now_rfc3339()}
    try:
        store.replace(VERDICT, json.dumps(content).encode())
    except OSError as error:
        logs.warning(f"{VERDICT} could not be written: {error}")
    raise NoProgress(message)


def _failures_in_a_row(records: Sequence[Record]) -> int:
    """Failures at the end of the list; attempts killed without notice neither count nor excuse."""
    count = 0
    for record in reversed(records):
        if record.made_progress or record.reason not in (Reason.FAILED, Reason.HUNG, None):
            break
        count += record.reason is not None
    return count
