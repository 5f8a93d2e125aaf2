"""What the worker reads from its environment, and the exit codes that the documentation promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    ("root", "line"),
    [
        ("gs://some-bucket", "gs://some-bucket/gpu-task-0"),
        ("gs://some-bucket/", "gs://some-bucket/gpu-task-0"),
        ("gs://some-bucket/team//runs/", "gs://some-bucket/team/runs/gpu-task-0"),
    ],
)
def test_checkpoints_may_be_kept_in_a_bucket_without_a_mount(root, line):
    assert str(Task.from_environment({"CHECKPOINT_DIR": root, "CLOUD_RUN_JOB": "gpu"}).line) == line


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "CHECKPOINT_DIR"),
        ({"CHECKPOINT_DIR": "s3://bucket/line"}, "s3://bucket/line"),
        ({"CHECKPOINT_DIR": "gs://"}, "gs://BUCKET/PREFIX"),
        ({"CHECKPOINT_DIR": "gs:///line"}, "gs://BUCKET/PREFIX"),
        ({"CHECKPOINT_DIR": "gs://Bucket/line"}, "gs://BUCKET/PREFIX"),
        ({"CHECKPOINT_DIR": "gs://bucket/a/../b"}, "prefix must not hold"),
        ({"CHECKPOINT_DIR": "/c", "TASK_TIMEOUT_S": "12h"}, "TASK_TIMEOUT_S"),
        ({"CHECKPOINT_DIR": "/c", "CLOUD_RUN_TASK_INDEX": "-1"}, "CLOUD_RUN_TASK_INDEX"),
        ({"CHECKPOINT_DIR": "/c", "CLOUD_RUN_TASK_COUNT": "0"}, "CLOUD_RUN_TASK_COUNT"),
        ({"CHECKPOINT_DIR": "/c", "MAX_RETRIES": "three"}, "MAX_RETRIES"),
        ({"CHECKPOINT_DIR": "/c", "MAX_RETRIES": "-1"}, "MAX_RETRIES"),
        ({"CHECKPOINT_DIR": "/c", "TASK_TIMEOUT_S": "0"}, "TASK_TIMEOUT_S"),
        ({"CHECKPOINT_DIR": "/c", "CLOUD_RUN_TASK_INDEX": "1" * 5000}, "CLOUD_RUN_TASK_INDEX is '111"),
        ({"CHECKPOINT_DIR": "/c", "CLOUD_RUN_TASK_INDEX": "\uff11"}, "CLOUD_RUN_TASK_INDEX"),
        (
            {"CHECKPOINT_DIR": "/c", "CLOUD_RUN_TASK_INDEX": "4", "CLOUD_RUN_TASK_COUNT": "4"},
            "CLOUD_RUN_TASK_INDEX is 4",
        ),
        ({"CHECKPOINT_DIR": "/c", "CLOUD_RUN_JOB": "../elsewhere"}, "CLOUD_RUN_JOB"),
    ],
)
def test_a_bad_variable_is_refused_by_name(environment, named):
    with pytest.raises(Refusal, match=re.escape(named)) as refusal:
        Task.from_environment(environment)
    assert refusal.value.exit_code == ExitCode.REFUSED
    assert len(str(refusal.value)) < 400


def test_the_documented_table_is_the_enum():
    text = (DOCS / "exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", text, flags=re.MULTILINE)
    assert rows == [(str(int(code)), code.name) for code in sorted(ExitCode)]


def test_every_reason_is_documented():
    text = (DOCS / "exit-codes.md").read_text()
    assert len(Reason) == 6
    assert [reason for reason in Reason if f"`{reason}`" not in text] == []


@pytest.mark.parametrize(
    ("attempt", "max_retries", "words", "left"),
    [
        ("0", "3", "attempt 0, 3 retries left", 3),
        ("2", "3", "attempt 2, 1 retry left", 1),
        ("3", "3", "attempt 3, no retry left", 0),
        ("5", "3", "attempt 5, no retry left", 0),
        ("0", "0", "attempt 0, no retry left", 0),
        ("1", "", "attempt 1", None),
    ],
)
def test_an_attempt_knows_how_many_the_platform_has_left(attempt, max_retries, words, left):
    environment = {"CHECKPOINT_DIR": "/c", "CLOUD_RUN_TASK_ATTEMPT": attempt, "MAX_RETRIES": max_retries}
    task = Task.from_environment(environment)
    assert (task.which_attempt, task.retries_left) == (words, left)
