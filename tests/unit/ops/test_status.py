"""The status table: what an operator reads off it."""

import io

import pytest
from rich.console import Console

from ops.errors import MissingError
from ops.model import AttemptResult, Durable, State
from ops.status import show_status
from ops.text import result_text
from tests.unit.ops.fakes import World, execution, task


def shown(world: World, typed: str | None = None) -> str:
    out = io.StringIO()
    show_status(world.cloud, typed, Console(file=out, width=200))
    return out.getvalue()


def cells(text: str, row: int = 0) -> list[str]:
    rows = [line for line in text.splitlines() if line.startswith("│")]
    return [cell.strip() for cell in rows[row].strip("│").split("│")]


def test_a_row_shows_attempt_retries_state_exit_and_durable_step(world: World):
    world.runs.put(execution())
    world.runs.task_lists["job-one"] = [task(attempt=2, signal=9)]
    world.checkpoints.steps = {0: Durable(120)}
    assert cells(shown(world)) == ["0", "2", "1", "running", "SIGKILL", "step 120", "2026-01-31 12:00:00Z"]


def test_a_bucket_that_cannot_be_read_is_not_an_empty_one(world: World):
    world.runs.put(execution(task_count=2))
    world.runs.task_lists["job-one"] = [task(0), task(1)]
    world.checkpoints.steps = {1: Durable(None, known=False, reason="Cloud Storage refused (403).")}
    text = shown(world)
    assert (cells(text, 0)[5], cells(text, 1)[5]) == ("none", "not known")
    assert "Durable steps are not known: Cloud Storage refused (403)." in text


def test_without_a_name_all_that_run_are_shown_and_else_the_newest(world: World):
    world.runs.put(execution("job-a", State.FAILED), execution("job-b", State.SUCCEEDED))
    assert "job-b" in shown(world)
    assert "job-a" not in shown(world)
    world.runs.put(execution("job-c"), execution("job-d"))
    assert all(name in shown(world) for name in ("job-c", "job-d"))
    assert "job-b" not in shown(world)


def test_of_many_tasks_the_unfinished_are_shown_first(world: World):
    world.runs.put(execution(task_count=60))
    world.runs.task_lists["job-one"] = [task(i, State.RUNNING if i >= 55 else State.SUCCEEDED) for i in range(60)]
    text = shown(world)
    assert "10 more tasks are not shown." in text
    assert text.count("running") >= 5


def test_a_job_that_never_ran_says_so(world: World):
    with pytest.raises(MissingError, match="no execution yet"):
        shown(world)


def test_a_result_is_a_code_a_signal_or_the_platforms_words():
    assert result_text(None) == "-"
    assert result_text(AttemptResult(0, None, "")) == "0"
    assert result_text(AttemptResult(None, 15, "")) == "SIGTERM"
    assert result_text(AttemptResult(None, 99, "")) == "signal 99"
    assert result_text(AttemptResult(None, None, "Memory limit exceeded.")) == "Memory limit exceeded."
