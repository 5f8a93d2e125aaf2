"""What a checkpoint line's ledger says about durable progress: pure functions over its names and documents.

The ledger is one JSON document an attempt, `ledger/eNNNN-nonce.json`; the epoch NNNN orders the attempts of all
executions.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ops.model import Durable

_NAME = re.compile(r"ledger/e(\d+)-[^/]*\.json$")


def newest_first(names: Iterable[str]) -> list[str]:
    """Ledger documents among object names, the newest epoch first; anything else is left out."""
    found = [(int(match.group(1)), name) for name in names if (match := _NAME.search(name))]
    return [name for _, name in sorted(found, reverse=True)]


def durable_from(
    names: Iterable[str], read: Callable[[str], Mapping[str, Any] | None], execution: str | None
) -> Durable:
    """The step that the newest attempt made durable or started from.

    `names` are newest first; `read` returns None for a document that is torn. An attempt without either (killed
    before its first save) says nothing, and the one before it is asked. With `execution`, the attempts of others are
    passed over.
    """
    torn = ""
    for name in names:
        document = read(name)
        if document is None:
            torn = torn or name
            continue
        if execution is not None and document.get("execution") != execution:
            continue
        steps = [document.get("last_durable_step"), document.get("resumed_from_step")]
        step = next((step for step in steps if isinstance(step, int)), None)
        if step is not None:
            return Durable(step, finished=document.get("reason") == "finished", at_least=bool(torn))
    if torn:
        return Durable(
            None, known=False, reason=f"The ledger document {torn} was only half written. Checkpoints are safe."
        )
    return Durable(None)


def line_prefix(checkpoint_url: str, task: int) -> tuple[str, str]:
    """Bucket and folder of a task's line, from task 0's URL: `gs://b/job-task-0` and 2 -> ("b", "job-task-2/")."""
    bucket, _, folder = checkpoint_url.removeprefix("gs://").partition("/")
    base, _, _ = folder.rstrip("/").rpartition("-task-")
    return bucket, f"{base}-task-{task}/"
