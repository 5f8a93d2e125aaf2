"""What the worker reads from its environment, and the exit codes that the documentation promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app import shutdown
from app.contract import ExitCode, Reason, Refusal, Task

DOCS = Path(__file__).parents[3] / "docs"


def test_outside_cloud_run_only_the_directory_is_needed():
    task = Task.from_environment({"CHECKPOINT_DIR": "/some/where"})
    assert task.line == Path("/some/where/job-task-0")
    assert (task.count, task.attempt, task.execution, task.timeout_s, task.required_gpu) == (1, 0, "", None, None)


def test_on_cloud_run_the_line_is_named_after_job_and_task():
    environment = {
        "CHECKPOINT_DIR": "/checkpoints",
        "CLOUD_RUN_JOB": "gpu-resilient-job",
        "CLOUD_RUN_EXECUTION": "gpu-resilient-job-x7k2p",
        "CLOUD_RUN_TASK_INDEX": "3",
        "CLOUD_RUN_TASK_COUNT": "8",
        "CLOUD_RUN_TASK_ATTEMPT": "2",
        "TASK_TIMEOUT_S": "43200",
        "REQUIRED_GPU": "nvidia-l4",
    }
    task = Task.from_environment(environment)
    assert task.line == Path("/checkpoints/gpu-resilient-job-task-3")
    assert (task.index, task.count, task.attempt, task.timeout_s) == (3, 8, 2, 43200)
    assert task.required_gpu == "nvidia-l4"


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "CHECKPOINT_DIR"),
        ({"CHECKPOINT_DIR": "gs://bucket/line"}, "gs://bucket/line"),
        ({"CHECKPOINT_DIR": "/c", "TASK_TIMEOUT_S": "12h"}, "TASK_TIMEOUT_S"),
        ({"CHECKPOINT_DIR": "/c", "CLOUD_RUN_TASK_INDEX": "-1"}, "CLOUD_RUN_TASK_INDEX"),
        ({"CHECKPOINT_DIR": "/c", "CLOUD_RUN_TASK_COUNT": "0"}, "CLOUD_RUN_TASK_COUNT"),
        ({"CHECKPOINT_DIR": "/c", "CLOUD_RUN_JOB": "../elsewhere"}, "CLOUD_RUN_JOB"),
    ],
)
def test_a_bad_variable_is_refused_by_name(environment, named):
    with pytest.raises(Refusal, match=re.escape(named)) as refusal:
        Task.from_environment(environment)
    assert refusal.value.exit_code == ExitCode.REFUSED


def test_the_documented_table_is_the_enum():
    text = (DOCS / "exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", text, flags=re.MULTILINE)
    assert rows == [(str(int(code)), code.name) for code in sorted(ExitCode)]


def test_every_reason_is_documented():
    text = (DOCS / "exit-codes.md").read_text()
    reasons = [value for name, value in vars(Reason).items() if name.isupper()]
    assert len(reasons) == 6
    assert [reason for reason in reasons if f"`{reason}`" not in text] == []


def test_the_early_spelling_of_stopped_is_the_enums():
    assert shutdown.STOPPED == ExitCode.STOPPED
