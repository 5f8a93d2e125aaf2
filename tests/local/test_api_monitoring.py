"""What the monitoring half refuses, as the live API does, and how it answers a dashboard."""

from typing import Any

import httpx
import pytest

from localcloud.testing import Cloud

V3, V1 = "/monitoring/v3/projects/p", "/monitoring/v1/projects/p"
LOG_MATCH = {"displayName": "c", "conditionMatchedLog": {"filter": "severity=ERROR"}}
PROMQL = {"displayName": "q", "conditionPrometheusQueryLanguage": {"query": "up == 0"}}
LIMITED = {"alertStrategy": {"notificationRateLimit": {"period": "300s"}}}


def ask(cloud: Cloud, method: str, path: str, body: Any = None) -> httpx.Response:
    return httpx.request(method, cloud.url + path, json=body, trust_env=False)


def policy(*conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"displayName": "p", "combiner": "OR", "conditions": list(conditions), **more}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (policy(), "at least one condition"),
        (policy({"displayName": "c"}), "exactly one kind"),
        (policy(LOG_MATCH | PROMQL, **LIMITED), "exactly one kind"),
        (policy(LOG_MATCH), "notification_rate_limit"),
        (policy(PROMQL, PROMQL), "only condition"),
    ],
)
def test_a_policy_that_google_refuses_is_refused(cloud: Cloud, body: dict[str, Any], words: str) -> None:
    answer = ask(cloud, "POST", f"{V3}/alertPolicies", body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


def test_a_channel_in_use_is_kept_unless_forced(cloud: Cloud) -> None:
    channel = ask(cloud, "POST", f"{V3}/notificationChannels", {"type": "email"}).json()["name"]
    used = policy(LOG_MATCH, notificationChannels=[channel], **LIMITED)
    name = ask(cloud, "POST", f"{V3}/alertPolicies", used).json()["name"]
    refused = ask(cloud, "DELETE", f"/monitoring/v3/{channel}?force=false")
    assert refused.status_code == 400
    assert name in refused.json()["error"]["message"]
    assert ask(cloud, "DELETE", f"/monitoring/v3/{channel}?force=true").status_code == 200
    assert ask(cloud, "GET", f"/monitoring/v3/{name}").json()["notificationChannels"] == []


def test_a_dashboard_is_answered_without_zeros(cloud: Cloud) -> None:
    tile = {"xPos": 0, "yPos": 4, "widget": {"title": "", "text": {"content": "x"}, "blank": {}}}
    made = ask(cloud, "POST", f"{V1}/dashboards", {"displayName": "d", "mosaicLayout": {"tiles": [tile]}}).json()
    assert made["mosaicLayout"]["tiles"] == [{"yPos": 4, "widget": {"text": {"content": "x"}, "blank": {}}}]
    stale = ask(cloud, "PATCH", f"/monitoring/v1/{made['name']}", {"displayName": "e", "etag": "other"})
    assert stale.status_code == 409


@pytest.mark.parametrize(
    ("metric", "code"),
    [
        ({"name": "a", "filter": "severity=ERROR"}, 200),
        ({"name": "b", "filter": ""}, 400),
        ({"name": "c", "filter": "f", "valueExtractor": "EXTRACT(jsonPayload.step)"}, 400),
        ({"name": "d", "filter": "f", "metricDescriptor": {"metricKind": "DELTA", "valueType": "DISTRIBUTION"}}, 400),
    ],
)
def test_a_metric_extracts_values_exactly_where_it_is_a_distribution(cloud: Cloud, metric: Any, code: int) -> None:
    answer = ask(cloud, "POST", "/logging/v2/projects/p/metrics", metric)
    assert answer.status_code == code
    if code == 200:
        assert answer.json()["metricDescriptor"]["type"] == "logging.googleapis.com/user/a"
