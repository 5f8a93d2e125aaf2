"""Alerts, runbooks and the dashboard as data: thresholds, texts, and what they may refer to."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra import alerts, signals
from infra.dashboard import COLUMNS, dashboard
from infra.problems import SettingsError
from infra.promql import JobQueries, metric_name
from infra.rules import parse
from infra.runbooks import RUNBOOKS, documentation, page
from infra.settings import Settings

ROOT = Path(__file__).parents[3]
JOB, REGION = "gpu-resilient-job", "europe-west4"
GOOGLES = {
    "run_googleapis_com:job_running_task_attempts",
    "run_googleapis_com:job_completed_execution_count",
    "run_googleapis_com:job_completed_task_attempt_count",
    "run_googleapis_com:container_billable_instance_time",
}
"""Cloud Run's own metrics with resource cloud_run_job."""


def settings(**changes: str) -> Settings:
    return parse(changes, project="demo-project", region=REGION)


def by_name(**changes: str) -> dict[str, alerts.Alert]:
    return {alert.name: alert for alert in alerts.alerts_of(settings(**changes))}


def strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from strings(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from strings(value)
    elif isinstance(tree, str):
        yield tree


class TestSettings:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("noProgressMinutes", "19"),
            ("noProgressMinutes", "1441"),
            ("atRiskMinutes", "14"),
            ("retriesLeft", "-1"),
            ("retriesLeft", "10"),
            ("notificationEmails", '["nobody"]'),
            ("notificationEmails", '["a@b"]'),
            ("notificationEmails", '["a@b.c, d@e.f"]'),
            ("notificationEmails", '["a@b.c", "A@b.c"]'),
            ("notificationEmails", json.dumps([f"a{number}@b.c" for number in range(17)])),
        ],
    )
    def test_what_cannot_work_is_named_by_its_key(self, key: str, value: str) -> None:
        with pytest.raises(SettingsError) as caught:
            settings(**{key: value})
        assert [problem.key for problem in caught.value.problems] == [f"gpujob:{key}"]

    @pytest.mark.parametrize("address", ["oncall@example.com", "ml+gpu.alerts@mail.example.co.uk"])
    def test_an_address_is_taken(self, address: str) -> None:
        assert settings(notificationEmails=f'["{address}"]').notification_emails == (address,)

    @pytest.mark.parametrize(
        ("changes", "warned"),
        [
            ({}, True),
            ({"notificationEmails": '["a@b.c"]'}, False),
            ({"observability": "false"}, False),
            ({"disposable": "true"}, False),
        ],
    )
    def test_a_stack_that_is_to_last_and_tells_nobody_is_warned(self, changes: dict[str, str], warned: bool) -> None:
        assert any("notificationEmails" in warning for warning in settings(**changes).warnings) is warned


class TestAlerts:
    def test_each_has_one_condition_and_a_runbook(self) -> None:
        found = by_name()
        assert set(found) == set(RUNBOOKS)
        assert all(bool(alert.query) != bool(alert.log_filter) for alert in found.values())
        assert {alert.severity for alert in found.values()} <= {"CRITICAL", "ERROR", "WARNING"}

    def test_the_window_before_counts_towards_the_minutes(self) -> None:
        found = by_name(noProgressMinutes="45", atRiskMinutes="15")
        assert (found[alerts.NO_PROGRESS].for_minutes, found[alerts.AT_RISK].for_minutes) == (35, 5)
        assert "45 minutes" in found[alerts.NO_PROGRESS].title

    @pytest.mark.parametrize(
        ("retries", "left", "attempts"),
        [
            ("3", "1", ["2", "3"]),
            ("3", "0", ["3"]),
            ("1", "1", ["1"]),
            ("1", "9", ["1"]),
            ("10", "2", ["8", "9", "10"]),
        ],
    )
    def test_the_last_attempts_are_named_and_never_the_first(
        self, retries: str, left: str, attempts: list[str]
    ) -> None:
        text = by_name(maxRetries=retries, retriesLeft=left)[alerts.RETRIES].log_filter
        assert re.findall(r'"(\d+)"', text.split("task_attempt")[1]) == attempts

    def test_every_metric_that_a_query_names_exists(self) -> None:
        ours = {metric_name(signal.metric_type(JOB)) + suffix for signal in signals.ALL for suffix in _suffixes(signal)}
        queries = [alert.query for alert in by_name().values()]
        queries += [text for text in strings(dashboard("demo-project", JOB, REGION)) if "googleapis_com:" in text]
        named = {name for query in queries for name in re.findall(r"\w+_googleapis_com:\w+", query)}
        assert named <= ours | GOOGLES
        assert len(named) >= 6

    def test_a_query_says_which_job_region_and_kind_of_resource(self) -> None:
        selectors = [s for alert in by_name().values() for s in re.findall(r"\{[^}]*\}", alert.query)]
        labels = f'monitored_resource="cloud_run_job",job_name="{JOB}",location="{REGION}"'
        assert len(selectors) == 5
        assert all(selector.startswith(f"{{{labels}") for selector in selectors)

    def test_every_parenthesis_of_a_query_is_closed(self) -> None:
        for alert in by_name().values():
            depth = 0
            for character in alert.query:
                depth += {"(": 1, ")": -1}.get(character, 0)
                assert depth >= 0
            assert depth == 0


def _suffixes(signal: signals.Signal) -> tuple[str, ...]:
    return ("_sum", "_count") if signal.field else ("",)


class TestSignals:
    def test_two_jobs_share_no_metric(self) -> None:
        names = [signal.metric(job) for job in ("one", "one-b") for signal in signals.ALL]
        assert len(set(names)) == len(names)

    def test_names_are_as_cloud_logging_allows_for_the_longest_job(self) -> None:
        for signal in signals.ALL:
            name = signal.metric("j" * 49)
            assert len(name) <= 100
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_\-./]*", name)

    def test_promql_names_follow_googles_rule(self) -> None:
        assert metric_name("logging.googleapis.com/user/a-b/steps") == "logging_googleapis_com:user_a_b_steps"
        assert "user_gpu_resilient_job_steps_count{" in JobQueries(JOB, REGION).lines(signals.STEPS, "5m")
        assert "user_gpu_resilient_job_preemptions{" in JobQueries(JOB, REGION).lines(signals.PREEMPTIONS, "5m")


class TestRunbooks:
    def test_the_page_is_what_the_code_writes(self) -> None:
        assert (ROOT / "docs/runbooks.md").read_text() == page(), "run: python -m infra.runbooks"

    @pytest.mark.parametrize("name", RUNBOOKS)
    def test_it_fits_into_an_alert_and_names_the_job(self, name: str) -> None:
        text = documentation(name, "j" * 49, REGION, "p" * 30)
        assert len(text.encode()) < 8192
        assert "`" + "j" * 49 + "`" in text

    def test_it_names_only_commands_and_settings_that_exist(self) -> None:
        from infra.settings import declared_keys

        operate = (ROOT / "docs/operate.md").read_text()
        for command in re.findall(r"`gpujob (\w+)", page()):
            assert f"`gpujob {command}" in operate, command
        for key in re.findall(r"`([a-z]+[A-Z]\w+)`", page()):
            assert key in declared_keys(), key


class TestDashboard:
    TILES = dashboard("demo-project", JOB, REGION)["mosaicLayout"]["tiles"]

    def test_nothing_is_written_that_the_api_would_leave_out(self) -> None:
        def blanks(tree: Any, path: str = "") -> Iterator[str]:
            if isinstance(tree, dict | list):
                pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
                for key, value in pairs:
                    yield from blanks(value, f"{path}.{key}")
            if not tree:
                yield path

        assert list(blanks(dashboard("demo-project", JOB, REGION))) == []

    def test_tiles_lie_side_by_side_and_cover_the_width(self) -> None:
        cells = [
            (tile.get("xPos", 0) + x, tile.get("yPos", 0) + y)
            for tile in self.TILES
            for x in range(tile["width"])
            for y in range(tile["height"])
        ]
        rows = max(y for _, y in cells) + 1
        assert sorted(cells) == [(x, y) for x in range(COLUMNS) for y in range(rows)]

    @pytest.mark.parametrize("word", ["step", "loss", "save duration", "lost work", "attempts", "gpu hours", "at risk"])
    def test_it_shows(self, word: str) -> None:
        assert any(word in tile["widget"]["title"].lower() for tile in self.TILES)

    def test_every_log_based_metric_is_on_it(self) -> None:
        text = " ".join(strings(dashboard("demo-project", JOB, REGION)))
        missing = [
            signal.name
            for signal in signals.ALL
            if signal.metric_type(JOB) not in text and metric_name(signal.metric_type(JOB)) not in text
        ]
        assert missing == []
