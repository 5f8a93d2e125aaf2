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
    """The step from which the line would resume: now, or as `execution` left it.

    `names` are newest first; `read` returns None for a document that is torn. An attempt that neither saved nor resumed
    (killed too early) says nothing, and the one before it is asked, of whatever execution. An execution that has no
    attempt in the ledger stands where the line stands.
    """
    line, torn = Durable(None), ""
    begun = execution is None
    for name in names:
        document = read(name)
        if document is None:
            torn = torn or name
            continue
        steps = [document.get("last_durable_step"), document.get("resumed_from_step")]
        step = next((step for step in steps if isinstance(step, int)), None)
        own = execution is None or document.get("execution") == execution
        begun = begun or own
        if step is None:
            continue
        found = Durable(step, finished=own and document.get("reason") == "finished", at_least=bool(torn))
        if begun:
            return found
        line = line if line.step is not None else found
    if torn and line.step is None:
        reason = f"The ledger document {torn} was only half written. Checkpoints are safe."
        return Durable(None, known=False, reason=reason)
    return Durable(None) if begun else line


def line_prefix(checkpoint_url: str, task: int) -> tuple[str, str]:
    """Bucket and folder of a task's line, from task 0's URL: `gs://b/job-task-0` and 2 -> ("b", "job-task-2/")."""
    bucket, _, folder = checkpoint_url.removeprefix("gs://").partition("/")
    base, _, _ = folder.rstrip("/").rpartition("-task-")
    return bucket, f"{base}-task-{task}/"
