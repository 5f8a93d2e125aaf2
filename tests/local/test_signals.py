"""The filters of the log-based metrics and of the log alerts, held to what a real worker and the platform log."""

import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from infra import alerts, signals
from infra.rules import parse
from infra.signals import Signal
from localcloud import TREE
from localcloud.logs.filter import compile_filter
from tests.local.conftest import REGION, until

Entries = list[dict[str, Any]]

# `python -m app countdown` with a loop of its own, whose attempts end in the ways that the metrics tell apart:
# 0 is preempted, 1 has a failing save and runs into the timeout, 2 to 4 fail at once, and the breaker ends the rest.
WORKER = """
import json, os, runpy, sys, time
from app import session
from app.checkpoint.line import Line
from app.workloads import countdown
attempt = int(os.environ["CLOUD_RUN_TASK_ATTEMPT"])

def run(flags, start):
    with session(total_steps=1000, every_steps=5, log_every=1, start=start) as run:
        for step in run.steps():
            if attempt >= 2:
                raise RuntimeError("at the same place again")
            time.sleep(0.05)
            run.log(loss=1 / (step + 1))
countdown.run = run

commit, failures = Line.commit, [attempt == 1]
def failing_once(self, *arguments, **options):
    if failures.pop() if failures else False:
        raise OSError(5, "Input/output error")
    return commit(self, *arguments, **options)
Line.commit = failing_once

print("Container instance preemption initiated by the platform due to underlying hardware maintenance.")
print("Terminating task because it has reached the maximum timeout of 3600 seconds.")
print(json.dumps({"message": "step by step", "step": 7, "loss": 0.1}))
print(json.dumps({"message": "Saving step 7 failed as an example", "severity": "INFO"}))
print(json.dumps({"message": "Resuming from checkpointed step 7 is possible"}), flush=True)
sys.argv = ["app", "countdown"]
runpy.run_module("app", run_name="__main__")
"""
SETTINGS = parse({"maxRetries": "6", "jobName": "job"}, project="local-project", region=REGION)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory, jobs_on: Any) -> Entries:
    """Everything that one execution of six retries and the platform around it logged."""
    from localcloud.testing import running_cloud

    folder = tmp_path_factory.mktemp("signals")
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    variables = {"PYTHONPATH": str(TREE), "CHECKPOINT_DIR": str(checkpoints)}
    with running_cloud(folder / "state", grace_s=5) as cloud, jobs_on(cloud) as jobs:
        env = [{"name": name, "value": value} for name, value in variables.items()]
        jobs.create(textwrap.dedent(WORKER), container={"env": env}, maxRetries=6, timeout="12s")
        execution = jobs.run()
        until(lambda: any("step 8/" in line for line in jobs.lines(execution)), "step 8")
        cloud.ask("POST", "preempt")
        jobs.finished(execution)
        return jobs.entries(execution)


def matching(entries: Entries, text: str) -> Entries:
    return [entry for entry in entries if compile_filter(text).matches(entry)]


def counted(entries: Entries, signal: Signal) -> Entries:
    return matching(entries, signal.filter("job", REGION))


def values(entries: Entries, signal: Signal) -> list[float]:
    """What the metric's extractor takes from the matching lines."""
    return [entry["jsonPayload"][signal.field] for entry in counted(entries, signal)]


def told(entries: Entries, pattern: str) -> list[int]:
    """The number that the worker's own messages name: found without any field."""
    payloads = [entry["jsonPayload"] for entry in entries if "jsonPayload" in entry]
    found = [re.match(pattern, payload["message"]) for payload in payloads if "attempt" in payload]
    return [int(match[1]) for match in found if match]


def attempt_of(entry: dict[str, Any]) -> int:
    return int(entry["labels"]["run.googleapis.com/task_attempt"])


pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize(
    ("signal", "attempts"),
    [(signals.PREEMPTIONS, [0]), (signals.TIMEOUTS, [1]), (signals.SAVE_FAILURES, [1]), (signals.GIVEN_UP, [5, 6])],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_counter_counts_each_event_once_and_no_words_about_it(
    entries: Entries, signal: Signal, attempts: list[int]
) -> None:
    assert [attempt_of(entry) for entry in counted(entries, signal)] == attempts


@pytest.mark.parametrize(
    ("signal", "pattern"),
    [
        (signals.STEPS, r"step (\d+)/1000"),
        (signals.DURABLE_STEPS, r"Checkpoint 0*(\d+)-\S+ is durable"),
        (signals.RESUMES, r"Resuming from checkpointed step (\d+)\."),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_distribution_holds_the_steps_that_the_messages_name(entries: Entries, signal: Signal, pattern: str) -> None:
    assert values(entries, signal) == told(entries, pattern) != []


def test_loss_and_save_duration_are_numbers_one_a_line(entries: Entries) -> None:
    steps = values(entries, signals.STEPS)
    assert values(entries, signals.LOSS) == pytest.approx([1 / step for step in steps])
    seconds = values(entries, signals.SAVE_SECONDS)
    assert len(seconds) == len(values(entries, signals.DURABLE_STEPS))
    assert all(0 <= each < 60 for each in seconds)


@pytest.mark.parametrize("signal", signals.ALL, ids=lambda signal: signal.name)
def test_every_line_that_counts_has_the_label_and_the_value(entries: Entries, signal: Signal) -> None:
    found = counted(entries, signal)
    assert found
    assert {entry["labels"]["run.googleapis.com/task_index"] for entry in found} == {"0"}
    if signal.field:
        assert all(isinstance(value, int | float) for value in values(entries, signal))


@pytest.mark.parametrize("signal", signals.ALL, ids=lambda signal: signal.name)
def test_another_job_and_another_region_are_another_metric(entries: Entries, signal: Signal) -> None:
    assert matching(entries, signal.filter("other", REGION)) == []
    assert matching(entries, signal.filter("job", "us-east4")) == []


def test_the_log_alerts_match_the_last_attempts_and_the_verdict(entries: Entries) -> None:
    filters = {alert.name: alert.log_filter for alert in alerts.alerts_of(SETTINGS) if alert.log_filter}
    found: Callable[[str], set[int]] = lambda name: {attempt_of(e) for e in matching(entries, filters[name])}  # noqa: E731
    assert found(alerts.RETRIES) == {5, 6}
    assert found(alerts.BREAKER) == {5, 6}
    assert set(filters) == {alerts.RETRIES, alerts.BREAKER}


def test_a_verdict_in_the_traceback_of_a_script_counts_too() -> None:
    entry = {
        "resource": {"type": "cloud_run_job", "labels": {"job_name": "job", "location": REGION}},
        "textPayload": "app.ledger.NoProgress: 3 attempts in a row failed without a new durable step, so trying again",
    }
    assert counted([entry], signals.GIVEN_UP)
