"""Storage that fails for a moment: try again with growing pauses, then leave it to the platform's retry."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, TypeVar

from app import logs
from app.contract import Refusal, TryAgain

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MISPLACED = {errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""Something of another kind stands where an object or folder belongs, or can never stand there."""

PAUSES_S = (0.5, 1.0, 2.0)
TRIES = len(PAUSES_S) + 1


class StoreUnavailable(TryAgain):
    """The storage did not answer in several tries."""


def patiently(
    action: Callable[[], T],
    doing: str,
    *,
    but: tuple[type[OSError], ...] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """What `action` returns, tried again while it raises OSError.

    `doing` begins the sentences of the log, e.g. "Reading checkpoints". Errors of the types `but` say something else
    than trouble and are raised at once. Raises StoreUnavailable after TRIES tries, and Refusal for what
    no waiting mends.
    """
    for pause_s in (*PAUSES_S, None):
        try:
            return action()
        except but:
            raise
        except OSError as error:
            if error.errno in MISPLACED:
                raise Refusal(
                    f"{doing} cannot work: {error.strerror}: {error.filename}. Something else has the place of a "
                    "folder or object of the checkpoint line, or its name is too long. Nothing was changed: look at "
                    "it, and move it away or choose another CHECKPOINT_DIR or job name."
                ) from error
            if pause_s is None:
                raise StoreUnavailable(
                    f"{doing} failed {TRIES} times: {error}. Nothing was changed. Ending, so that a retry tries again; "
                    "if it persists, look at the bucket's mount and the service account's role."
                ) from error
            logs.warning(f"{doing} failed ({error}); trying again in {pause_s:g} s.")
            sleep(pause_s)
    raise AssertionError
