"""The commands against the local cloud: a job that succeeds, fails, is retried, is followed and is cancelled."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner

import ops.cli
from localcloud import TREE
from ops.cloud import Cloud, connect_to
from ops.logs import follow, read
from ops.model import State
from ops.stack import parse_outputs
from ops.start import start
from ops.watch import watch

PARENT = "projects/local-project/locations/europe-west4"
NUMBERS = itertools.count(os.getpid())

PROGRAM = """
import json, os, pathlib, signal, sys, time
root = pathlib.Path(os.environ["CHECKPOINT_DIR"])
attempt = int(os.environ["CLOUD_RUN_TASK_ATTEMPT"])
ledger = root / f"{os.environ['CLOUD_RUN_JOB']}-task-{os.environ['CLOUD_RUN_TASK_INDEX']}" / "ledger"
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

def say(message):
    print(json.dumps({"severity": "INFO", "message": message}), flush=True)

ledger.mkdir(parents=True, exist_ok=True)
step = 10 * (attempt + 1)
document = {"execution": os.environ["CLOUD_RUN_EXECUTION"], "last_durable_step": step, "resumed_from_step": None}
(ledger / f"e{attempt + 1:04d}-aa.json").write_text(json.dumps(document))
say(f"step {step}/100")
if sys.argv[1] == "fail":
    sys.exit(70)
if sys.argv[1] == "stumble" and attempt == 0:
    sys.exit(75)
if sys.argv[1] == "wait":
    say("waiting")
    while not (root / "go").exists():
        time.sleep(0.02)
say("done")
"""


@dataclass
class Deployed:
    """A job in the local cloud with its bucket."""

    cloud: Cloud
    url: str
    bucket: str
    exports: dict[str, Any]

    def let_go(self) -> None:
        """Ends the task that waits."""
        answer = requests.post(
            f"{self.url}/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name=go", data=b"", timeout=30
        )
        answer.raise_for_status()


@pytest.fixture
def deployed(cloud: Any) -> Deployed:
    name = f"ops-job-{next(NUMBERS)}"
    bucket = f"{name}-bucket"
    _post(f"{cloud.url}/storage/v1/b?project=local-project", {"name": bucket, "location": "EUROPE-WEST4"})
    container = {
        "image": "example.com/any@sha256:" + "0" * 64,
        "command": ["python", "-c", PROGRAM],
        "args": ["succeed"],
        "env": [{"name": "CHECKPOINT_DIR", "value": "/checkpoints"}],
        "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
        "resources": {"limits": {"cpu": "1000m", "memory": "512Mi"}},
    }
    template = {
        "containers": [container],
        "volumes": [{"name": "checkpoints", "gcs": {"bucket": bucket}}],
        "maxRetries": 1,
        "timeout": "120s",
    }
    _post(f"{cloud.url}/v2/{PARENT}/jobs?jobId={name}", {"template": {"taskCount": 1, "template": template}})
    exports = {
        "project": "local-project",
        "region": "europe-west4",
        "jobName": name,
        "jobId": f"{PARENT}/jobs/{name}",
        "checkpointUrl": f"gs://{bucket}/{name}-task-0",
        "endpoints": {
            "run": f"{cloud.url}/run/v2/",
            "logging": f"{cloud.url}/logging/v2/",
            "storage": f"{cloud.url}/storage/v1/",
        },
    }
    return Deployed(connect_to(parse_outputs(exports, "local")), cloud.url, bucket, exports)


def _post(url: str, body: dict[str, Any]) -> None:
    answer = requests.post(url, json=body, timeout=30)
    assert answer.ok, answer.text


@pytest.fixture
def gpujob(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(ops.cli, "_connect", lambda stack: deployed.cloud)
    return lambda *arguments: CliRunner().invoke(ops.cli.app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})


def cells(table: str) -> list[str]:
    row = next(line for line in table.splitlines() if line.startswith("│"))
    return [cell.strip() for cell in row.strip("│").split("│")]


def started(deployed: Deployed, *args: str) -> str:
    return start(deployed.cloud, args, lambda _: None)


def test_run_wait_succeeds_with_the_execution(gpujob, deployed: Deployed):
    done = gpujob("run", "--wait")
    assert done.exit_code == 0, done.output
    assert "task 0: succeeded in attempt 0" in done.output
    assert cells(done.stdout)[:6] == ["0", "0", "1", "succeeded", "0", "step 10"]


def test_run_wait_fails_with_the_execution_and_says_what_each_attempt_did(gpujob, deployed: Deployed):
    done = gpujob("run", "--wait", "--arg", "fail")
    assert done.exit_code == 1, done.output
    assert re.search(r"Execution \S+ failed.*Checkpoints on the bucket are kept", done.output)
    assert cells(done.stdout)[:6] == ["0", "1", "0", "failed", "70", "step 20"]


def test_a_retried_task_is_told_with_the_code_of_the_attempt_before(gpujob, deployed: Deployed):
    name = started(deployed, "stumble")
    assert watch(deployed.cloud, name, lambda _: None).state is State.SUCCEEDED
    assert cells(gpujob("status", name).stdout)[:6] == ["0", "1", "0", "succeeded", "0", "step 20"]
    messages = [(line.attempt, line.message) for line in read(deployed.cloud, deployed.cloud.runs.execution(name))]
    assert [one for one in messages if "step" in one[1] or "done" in one[1]] == [
        ("0", "step 10/100"),
        ("1", "step 20/100"),
        ("1", "done"),
    ]


def test_logs_follow_gives_each_line_once_and_ends_with_the_execution(deployed: Deployed):
    name = started(deployed, "wait")
    seen: list[str] = []
    for line in _lines(deployed, name):
        seen.append(line)
        if line == "waiting":
            deployed.let_go()
    assert [line for line in seen if line in {"step 10/100", "waiting", "done"}] == ["step 10/100", "waiting", "done"]
    assert deployed.cloud.runs.execution(name).state is State.SUCCEEDED


def test_cancel_waits_for_the_end_and_names_the_step_that_remains(gpujob, deployed: Deployed):
    name = started(deployed, "wait")
    assert "waiting" in itertools.takewhile(lambda line: line != "done", _lines(deployed, name, until="waiting"))
    assert "has not ended" in gpujob("run").stderr
    done = gpujob("cancel")
    assert done.exit_code == 0, done.output
    assert f"Execution {name} has ended: cancelled." in done.output
    assert "Task 0: step 10 is durable; the next execution resumes there." in done.output
    again = gpujob("cancel", name)
    assert again.exit_code == 3
    assert "there is nothing to cancel" in again.stderr


def test_watching_tells_a_preempted_attempt_from_one_that_was_killed(cloud: Any, deployed: Deployed):
    name = started(deployed, "wait")
    said: list[str] = []

    def interrupt(line: str) -> None:
        said.append(line.partition(" ")[2])
        if "attempt 0 running" in line:
            assert "waiting" in list(_lines(deployed, name, until="waiting"))
            cloud.ask("POST", "preempt", {"execution": name})
        if "attempt 1 running" in line:
            deployed.let_go()

    assert watch(deployed.cloud, name, interrupt).state is State.SUCCEEDED
    assert "task 0: attempt 0 ended, exit code 143: stopped by the platform, resumable" in said
    assert said[-1] == f"{name}: succeeded"


def test_ctrl_c_leaves_the_execution_running(deployed: Deployed, tmp_path: Path):
    pulumi = tmp_path / "pulumi"
    pulumi.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(deployed.exports)}\nEND\n")
    pulumi.chmod(0o755)
    command = [sys.executable, "-m", "ops", "run", "--wait", "--stack", "local", "--arg", "wait"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # inherited; a background job has none
    try:
        gpujob = subprocess.Popen(command, env=environment, cwd=TREE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, heard)
    with gpujob:
        assert gpujob.stderr is not None
        said = list(itertools.takewhile(lambda line: "attempt 0 running" not in line, gpujob.stderr))
        gpujob.send_signal(signal.SIGINT)
        rest = gpujob.stderr.read()
    name = re.search(r"Started execution (\S+) of job", "".join(said))
    assert name, said
    assert (gpujob.returncode, f"gpujob cancel {name[1]}" in rest) == (130, True), rest
    assert "Traceback" not in rest
    assert deployed.cloud.runs.execution(name[1]).state is State.RUNNING


def test_what_is_not_there_is_said(gpujob, deployed: Deployed):
    assert "has no execution yet" in gpujob("status").stderr
    done = gpujob("logs", "ops-job-gone")
    assert (done.exit_code, "has no execution ops-job-gone" in done.stderr) == (3, True)


def test_a_job_deleted_behind_pulumis_back_is_named(gpujob, deployed: Deployed):
    requests.delete(f"{deployed.url}/v2/{deployed.cloud.outputs.job_id}", timeout=30).raise_for_status()
    done = gpujob("run")
    assert done.exit_code == 3
    assert "pulumi refresh" in done.stderr


def _lines(deployed: Deployed, name: str, until: str | None = None) -> Iterator[str]:
    """Messages as they come; up to and with `until`, else to the end."""
    for line in follow(deployed.cloud, deployed.cloud.runs.execution(name), lambda _: None):
        yield line.message
        if line.message == until:
            return
