"""How states, results, times and log lines are spelled, in every command alike."""

import signal
from datetime import UTC, datetime

from ops.model import AttemptResult, Execution, LogLine, State, Task

EXIT_CODES = {
    0: "done",
    143: "stopped by the platform, resumable",
    75: "handed off before the timeout, resumable",
    70: "the program failed or hung, resumable from the last checkpoint",
    78: "retrying cannot help",
}
"""The worker's own (`app.contract.ExitCode`, which a test compares); any other code is the program's."""


def clock_time(moment: datetime | None) -> str:
    """`2026-01-31 12:00:00Z`, or `-`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if moment else "-"


def result_text(result: AttemptResult | None) -> str:
    """`143`, `SIGKILL` or the platform's words; `-` before any attempt has ended."""
    if result is None:
        return "-"
    if result.signal is not None:
        return _signal_name(result.signal)
    if result.exit_code is not None:
        return str(result.exit_code)
    return result.message or "no exit code"


def result_sentence(result: AttemptResult | None) -> str:
    """`exit code 143: stopped by the platform, resumable`."""
    if result is None or (result.exit_code is None and result.signal is None):
        return result_text(result)
    if result.signal is not None:
        return f"killed by {_signal_name(result.signal)}"
    meaning = EXIT_CODES.get(result.exit_code or 0)
    return f"exit code {result.exit_code}" + (f": {meaning}" if meaning else "")


def execution_text(execution: Execution) -> str:
    """`gpu-job-x2k4: running, 1 of 2 tasks done`."""
    counts = f"{execution.succeeded} of {execution.task_count} tasks succeeded"
    parts = [f"{execution.name}: {execution.state}", counts if execution.task_count > 1 else ""]
    if execution.failed and execution.task_count > 1:
        parts.append(f"{execution.failed} failed")
    return ", ".join(part for part in parts if part)


def task_text(task: Task) -> str:
    """`task 0: attempt 1 running, 2 retries left`."""
    retries = "retry" if task.retries_left == 1 else "retries"
    if task.state.ended:
        why = f" ({result_sentence(task.result)})" if task.state is State.FAILED else ""
        return f"task {task.index}: {task.state} in attempt {task.attempt}{why}"
    return f"task {task.index}: attempt {task.attempt} {task.state}, {task.retries_left} {retries} left"


def line_text(line: LogLine) -> str:
    """`INFO 2026-01-31T12:00:00.123Z 0/1 step 5/100`: severity, time, task/attempt, message."""
    moment = line.timestamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    where = f"{line.task or '-'}/{line.attempt or '-'}"
    return f"{line.severity:<8} {moment} {where:<4} {_printable(line.message)}"


def _printable(message: str) -> str:
    # A log line may carry anything: it must not move the cursor or recolour the terminal of whoever reads it.
    return "".join(
        c if c in "\n\t" or ((c.isprintable() or c.isspace()) and c != "\r") else " " for c in message.rstrip("\n")
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def size_text(size_bytes: int) -> str:
    """`1.4 GB`, in powers of 1000 as storage is billed."""
    size = float(size_bytes)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
