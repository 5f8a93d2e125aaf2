"""Log lines: one JSON object a line with `severity` on Cloud Run, text on a terminal.

Lines are written as they come, so nothing is buffered and `os._exit` loses nothing.
"""

from __future__ import annotations

import json
import logging
import math
import os
import select
import threading
import time
import traceback
from contextlib import suppress
from typing import Any

_FIELDS = dict[str, Any]()
"""Added to every JSON line: which attempt speaks."""


def label(**fields: Any) -> None:
    """Put these fields on every later JSON line."""
    _FIELDS.update(fields)


def info(message: str, **fields: Any) -> None:
    emit("INFO", message, **fields)


def warning(message: str, **fields: Any) -> None:
    emit("WARNING", message, **fields)


def error(message: str, **fields: Any) -> None:
    emit("ERROR", message, **fields)


def failure(message: str, caught: BaseException) -> None:
    """An error with its traceback in the message, where Error Reporting looks for it."""
    emit("ERROR", f"{message}\n{''.join(traceback.format_exception(caught)).rstrip()}")


def emit(severity: str, message: str, **fields: Any) -> None:
    if _as_json():
        finite = {key: _finite(value) for key, value in {**_FIELDS, **fields}.items()}
        line = json.dumps({"severity": severity, "message": message, **finite}, default=str)
    else:
        mark = "" if severity == "INFO" else f"{severity} "
        line = f"{time.strftime('%H:%M:%S')} {mark}{message}"
    _write(line.encode(errors="replace") + b"\n")


def adopt_library_logs() -> None:
    """Send what libraries log through the standard `logging` module the same way."""
    logging.basicConfig(handlers=[_Handler()], level=logging.WARNING, force=True)
    logging.captureWarnings(capture=True)  # warnings.warn would write its own lines to stderr


_SEVERITIES = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}
"""Levels that Cloud Logging has by the same name."""


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name}: {record.getMessage().rstrip()}"
        if record.exc_info and record.exc_info[1]:
            text += "\n" + "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        emit(record.levelname if record.levelname in _SEVERITIES else "DEFAULT", text)


def _as_json() -> bool:
    return "CLOUD_RUN_JOB" in os.environ and not os.isatty(1)


def _finite(value: Any) -> Any:
    """JSON has no NaN; Cloud Logging would turn the whole line into text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def hurry() -> None:
    """From now on no line waits for a reader: one that stdout does not take at once is lost."""
    _hurried.set()


_hurried = threading.Event()
_PIPE_TAKES_BYTES = 4096
"""A pipe that is writable has room for so much (PIPE_BUF)."""


def _write(line: bytes) -> None:
    with suppress(OSError, ValueError):  # a closed stdout must not end a training run
        while line:
            if select.select([], [1], [], 0.1)[1]:
                line = line[os.write(1, line[:_PIPE_TAKES_BYTES] if _hurried.is_set() else line) :]
            elif _hurried.is_set():
                return
