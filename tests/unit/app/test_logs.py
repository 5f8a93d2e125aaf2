"""Log lines: JSON with severity on Cloud Run, text on a terminal."""

from __future__ import annotations

import json

import pytest

from app import logs


@pytest.fixture
def on_cloud_run(monkeypatch):
    monkeypatch.setenv("CLOUD_RUN_JOB", "trainer")
    monkeypatch.setattr(logs, "_FIELDS", {})


def test_on_cloud_run_a_line_is_one_json_object(on_cloud_run, capfd):
    logs.info("step 3/9", step=3, loss=1.5)
    assert json.loads(capfd.readouterr().out) == {"severity": "INFO", "message": "step 3/9", "step": 3, "loss": 1.5}


def test_a_loss_that_is_not_a_number_does_not_break_the_line(on_cloud_run, capfd):
    logs.info("step 3/9", loss=float("nan"))
    line = capfd.readouterr().out
    assert json.loads(line, parse_constant=pytest.fail)["loss"] == "nan"


def test_a_failure_carries_its_traceback_in_the_message(on_cloud_run, capfd):
    try:
        {}["weights"]
    except KeyError as error:
        logs.failure("It failed.", error)
    line = json.loads(capfd.readouterr().out)
    assert line["severity"] == "ERROR"
    assert "KeyError: 'weights'" in line["message"]


def test_elsewhere_a_line_is_text(monkeypatch, capfd):
    monkeypatch.delenv("CLOUD_RUN_JOB", raising=False)
    logs.info("Saving checkpoint...", step=5)
    assert capfd.readouterr().out.rstrip().endswith(" Saving checkpoint...")
