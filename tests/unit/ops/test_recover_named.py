"""An object that Google named is found again by what it says; what says something else is another stack's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ops.errors import MisconfiguredError, RefusedError
from ops.recover_named import NAMED_KINDS, candidates, says_all
from tests.unit.ops.google_stub import Stub

POLICY, CHANNEL, DASHBOARD = NAMED_KINDS
QUERY = 'sum(increase(x{job_name="j", location="europe-west4"}[10m])) > 0'
INPUTS: dict[str, Any] = {
    "__defaults": ["enabled"],
    "project": "demo-project",
    "displayName": "GPU job j: failed",
    "combiner": "OR",
    "enabled": True,
    "conditions": [
        {"__defaults": [], "displayName": "failed", "conditionPrometheusQueryLanguage": {"query": QUERY}},
    ],
    "userLabels": {"app": "gpujob"},
}


def policy(number: int, made: str = "2026-11-30T12:00:00Z", **changes: Any) -> dict[str, Any]:
    """The policy as the API answers it."""
    said = {name: value for name, value in INPUTS.items() if name not in ("project", "__defaults")}
    conditions = [{**one, "name": f"projects/p/alertPolicies/{number}/conditions/1"} for one in said["conditions"]]
    name = f"projects/demo-project/alertPolicies/{number}"
    return {**said, "conditions": conditions, "name": name, "creationRecord": {"mutateTime": made}, **changes}


def found(google: Stub, *policies: dict[str, Any], known: tuple[str, ...] = ()) -> list[str]:
    google.answer("GET /monitoring/v3/projects/demo-project/alertPolicies", {"alertPolicies": list(policies)})
    config = {"gcp:monitoringCustomEndpoint": f"http://127.0.0.1:{google.port}/monitoring/"}
    return [one["name"].rpartition("/")[2] for one in candidates(POLICY, INPUTS, known, config)]


def other_region() -> list[dict[str, Any]]:
    query = QUERY.replace("europe-west4", "us-east4")
    return [{"displayName": "failed", "conditionPrometheusQueryLanguage": {"query": query}}]


@pytest.mark.parametrize(
    ("there", "names"),
    [
        ([], []),
        ([policy(1)], ["1"]),
        ([policy(1, displayName="GPU job other: failed")], []),
        ([policy(1, userLabels={"app": "other"})], []),
        ([policy(1, userLabels={"app": "gpujob", "team": "x"})], ["1"]),
        ([policy(1, conditions=other_region()), policy(2)], ["2"]),
    ],
    ids=["nothing", "it", "another job's", "another program's", "with a further label", "another region's"],
)
def test_what_was_made_is_what_says_the_same(google: Stub, there: list[dict[str, Any]], names: list[str]) -> None:
    assert found(google, *there) == names


def test_what_the_state_knows_is_left_out_whether_by_id_or_by_number_of_the_project(google: Stub) -> None:
    known = ("projects/123/alertPolicies/1",)
    assert found(google, policy(1), policy(2), known=known) == ["2"]


def test_the_newest_comes_last(google: Stub) -> None:
    there = (policy(2, "2026-11-30T12:00:01Z"), policy(1, "2026-11-30T12:00:00Z"))
    assert found(google, *there) == ["1", "2"]


def test_a_dashboard_is_known_by_what_its_json_says() -> None:
    board = {
        "displayName": "GPU job j",
        "mosaicLayout": {"columns": 12, "tiles": [{"xPos": 0, "widget": {"q": QUERY}}]},
    }
    inputs = {"project": "p", "dashboardJson": json.dumps(board)}
    answered = {**board, "name": "projects/p/dashboards/1", "etag": "x"}
    answered["mosaicLayout"] = {"columns": 12, "tiles": [{"widget": {"q": QUERY}}]}
    assert says_all(inputs, answered)
    assert not says_all(inputs, {**answered, "displayName": "GPU job k"})
    assert not says_all(inputs, {**answered, "mosaicLayout": {"columns": 12}})


def test_a_channel_is_known_by_its_address() -> None:
    inputs = {"project": "p", "type": "email", "displayName": "d", "labels": {"email_address": "a@example.com"}}
    assert says_all(inputs, {"type": "email", "displayName": "d", "labels": {"email_address": "a@example.com"}})
    assert not says_all(inputs, {"type": "email", "displayName": "d", "labels": {"email_address": "b@example.com"}})


def test_a_refusal_names_the_role(google: Stub) -> None:
    google.answer("GET /monitoring/v3/projects/demo-project/alertPolicies", {"error": {"message": "no"}}, status=403)
    config = {"gcp:monitoringCustomEndpoint": f"http://127.0.0.1:{google.port}/monitoring/"}
    with pytest.raises(RefusedError, match=r"roles/monitoring.viewer"):
        candidates(POLICY, INPUTS, (), config)


def test_an_endpoint_in_plain_http_elsewhere_is_asked_nothing() -> None:
    with pytest.raises(MisconfiguredError, match="neither https nor on this machine"):
        candidates(POLICY, INPUTS, (), {"gcp:monitoringCustomEndpoint": "http://example.com/"})
