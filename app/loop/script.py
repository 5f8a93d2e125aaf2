"""A script of one's own ends with the exit codes of `python -m app` when it raises what it does not catch."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from app import logs
from app.contract import ExitCode, Reason, TaskError

if TYPE_CHECKING:
    from types import TracebackType

    from app.shutdown import Shutdown


def end_with_an_exit_code(shutdown: Shutdown) -> None:
    """Python itself would end with 1 whatever was raised, which does not tell a wrong setting from a passing trouble.

    A second call does nothing, and a forked child ends as Python ends it.
    """
    before, pid = sys.excepthook, os.getpid()
    if getattr(before, "ends_with_an_exit_code", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != pid:
            before(kind, error, trace)
            return
        code, reason = ExitCode.FAILED, Reason.FAILED
        if isinstance(error, TaskError):
            code, reason = error.exit_code, error.reason
            logs.error(str(error))
        else:
            logs.failure("The program failed. What was durable is safe; a retry resumes from there.", error)
        if shutdown.noticed.is_set():
            code, reason = ExitCode.STOPPED, Reason.STOPPED
        shutdown.leave(code, reason)

    hook.ends_with_an_exit_code = True  # type: ignore[attr-defined]
    sys.excepthook = hook
