"""The rehearsal's arithmetic: which step each attempt reached, what was lost, and which promises that breaks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ops.rehearsal.attempts import Attempt, attempts_of
from ops.rehearsal.cloud import RehearsalCloud
from ops.rehearsal.report import Rehearsal, write
from ops.rehearsal.stack import resource_changes, write_local_config

PREEMPTED = {"attempt": 0, "exit_code": 143, "signal": None, "why": "preempted"}
KILLED = {"attempt": 1, "exit_code": None, "signal": 9, "why": "killed"}
FINISHED = {"attempt": 2, "exit_code": 0, "signal": None, "why": "finished"}
GOOD = [
    Attempt(0, 0, 24, "preempted", 143, 0),
    Attempt(1, 24, 50, "killed", 137, 6),
    Attempt(2, 44, 80, "finished", 0, 0),
]


def rehearsal(**changes: object) -> Rehearsal:
    good = Rehearsal(
        provider="localcloud.provider",
        resources_created=24,
        second_up_changes=0,
        attempts=GOOD,
        save_every=10,
        steps=80,
        final_weights="a" * 64,
        uninterrupted_weights="a" * 64,
        left_over=[],
        wall_s=42.0,
    )
    return replace(good, **changes)  # type: ignore[arg-type]


def test_steps_lost_are_those_between_an_attempts_last_and_the_next_ones_first() -> None:
    found = attempts_of([PREEMPTED, KILLED, FINISHED], {0: 24, 1: 50, 2: 80}, {0: None, 1: 24, 2: 44})
    assert found == GOOD


def test_an_attempt_that_logged_nothing_ended_where_it_started() -> None:
    (_, second) = attempts_of([PREEMPTED, KILLED], {0: 24}, {0: None, 1: 24})
    assert (second.started_at_step, second.ended_at_step, second.steps_lost) == (24, 24, 0)


def test_a_good_rehearsal_breaks_no_promise() -> None:
    assert list(rehearsal().broken_promises()) == []


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"second_up_changes": 1}, "second `pulumi up"),
        ({"resources_created": 0}, "created nothing"),
        ({"attempts": [replace(GOOD[0], steps_lost=1), *GOOD[1:]]}, "lost after SIGTERM"),
        ({"attempts": [GOOD[0], replace(GOOD[1], steps_lost=10), GOOD[2]]}, "lost after the kill"),
        ({"attempts": [replace(GOOD[0], exit_code=137), *GOOD[1:]]}, "attempts ended as"),
        ({"attempts": [*GOOD[:2], replace(GOOD[2], ended_at_step=79)]}, "did not reach step 80"),
        ({"attempts": []}, "attempts ended as"),
        ({"uninterrupted_weights": "b" * 64}, "differ from an uninterrupted"),
        ({"left_over": ["//run.googleapis.com/x"]}, "destroy` left"),
    ],
)
def test_each_broken_promise_is_named(changes: dict[str, object], word: str) -> None:
    assert any(word in promise for promise in rehearsal(**changes).broken_promises())


def test_the_report_for_machines_has_every_promised_field(tmp_path: Path) -> None:
    write(rehearsal(), tmp_path / "rehearsal.json")
    document = json.loads((tmp_path / "rehearsal.json").read_text())
    assert document["lost_steps_after_sigterm"] == 0
    assert document["lost_steps_after_kill"] == 6
    assert document["identical_to_uninterrupted"] is True
    assert document["destroyed"] is True
    assert document["attempts"][1] == {
        "attempt": 1, "started_at_step": 24, "ended_at_step": 50, "why": "killed", "exit_code": 137, "steps_lost": 6,
    }  # fmt: skip
    assert {"provider", "resources_created", "second_up_changes", "wall_s"} <= set(document)


def test_the_generated_configuration_changes_ports_and_workload_and_nothing_else(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "Pulumi.local.yaml"
    write_local_config(source, tmp_path / "generated.yaml", 4711, ["countdown", "--steps", "3"], {"A": "b"})
    before = yaml.safe_load(source.read_text())["config"]
    after = yaml.safe_load((tmp_path / "generated.yaml").read_text())["config"]
    endpoints = {key for key in before if key.endswith("CustomEndpoint")}
    assert {after[key] for key in endpoints} == {before[key].replace(":8790/", ":4711/") for key in endpoints}
    changed = {"gpujob:workload", "gpujob:workloadArgs", "gpujob:env"}
    assert {k: v for k, v in after.items() if k not in endpoints | changed} == {
        k: v for k, v in before.items() if k not in endpoints | changed
    }
    assert after["gpujob:workloadArgs"] == ["--steps", "3"]


def test_changes_are_read_from_the_last_summary_of_an_event_log(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    events = [{"resOutputsEvent": {}}, {"summaryEvent": {"resourceChanges": {"create": 3, "same": 1}}}]
    log.write_text("\n".join(json.dumps(event) for event in events))
    assert resource_changes(log) == {"create": 3, "same": 1}


def test_the_local_cloud_is_started_by_a_line_that_can_be_pasted_in_any_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the README shows it: nothing of this machine's folders is in it."""
    shown: list[list[str]] = []
    monkeypatch.setattr("ops.rehearsal.cloud.run", lambda command, **_: shown.append(command))
    with RehearsalCloud(tmp_path, 8790, tmp_path / "build" / "rehearsal" / "cloud", {}).running():
        pass
    assert shown[0][-2:] == ["--state", "build/rehearsal/cloud"]
    assert str(tmp_path) not in str(shown)
