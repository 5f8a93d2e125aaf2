"""Metrics, channels, policies, dashboards and schedules: what is sent, what counts as a change, how they are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.provider.diffing import Change, Difference
from localcloud.provider.errors import ProviderError, Refused, Unfinished
from localcloud.provider.lifecycle import Partial, Subject, checked, created, deleted, diffed, read, updated
from localcloud.provider.products import TYPES
from localcloud.provider.rest import Rest
from localcloud.provider.settings import ENDPOINTS, Settings

SETTINGS = Settings(
    project="demo",
    region="europe-west4",
    endpoints={key: f"http://127.0.0.1:9/{path}" for key, path in ENDPOINTS.items()},
)
METRIC = "gcp:logging/metric:Metric"
CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
SCHEDULE = "gcp:cloudscheduler/job:Job"
LOG_MATCH = {"displayName": "c", "conditionMatchedLog": {"filter": "severity=ERROR"}}
THRESHOLD = {"filter": "f", "comparison": "COMPARISON_GT", "duration": "0s", "thresholdValue": 1.5}
GIVEN: dict[str, dict[str, Any]] = {
    METRIC: {"name": "a/b", "filter": "severity=ERROR"},
    CHANNEL: {"type": "email", "labels": {"email_address": "a@b.c"}},
    POLICY: {"displayName": "p", "combiner": "OR", "conditions": [LOG_MATCH]},
    DASHBOARD: {"dashboardJson": '{"displayName": "d", "mosaicLayout": {"columns": 12}}'},
    SCHEDULE: {"name": "s", "schedule": "0 2 * * *", "httpTarget": {"uri": "https://x"}},
}
Asked = list[tuple[str, str, Any]]


def subject(token: str) -> Subject:
    return Subject(TYPES[token], "it", nested=False, settings=SETTINGS)


def inputs_of(token: str, **changes: Any) -> dict[str, Any]:
    inputs, failures = checked(subject(token), {}, {**GIVEN[token], **changes}, b"")
    assert failures == []
    return inputs


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asked]:
    """Puts answers in the place of the network, by method; what was asked is kept."""

    def install(**answers: Any) -> Asked:
        asked: Asked = []

        def call(_self: Rest, method: str, url: str, **more: Any) -> dict[str, Any]:
            query = "&".join(f"{key}={value}" for key, value in (more.get("query") or {}).items())
            path = url.removeprefix("http://127.0.0.1:9/") + (f"?{query}" if query else "")
            asked.append((method, path, more.get("body")))
            answer = answers.get(method, {})
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(Rest, "call", call)
        return asked

    return install


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("token", "changes", "path"),
        [
            (METRIC, {"version": "V1"}, "version"),
            (CHANNEL, {"sensitiveLabels": {"authToken": "x"}}, "sensitiveLabels"),
            (POLICY, {"conditions": [{"displayName": "c", "conditionSql": {}}]}, "conditions[0].conditionSql"),
            (DASHBOARD, {"dashboardJson": "{"}, "dashboardJson"),
            (DASHBOARD, {"dashboardJson": "[]"}, "dashboardJson"),
            (SCHEDULE, {"pubsubTarget": {}}, "pubsubTarget"),
            (POLICY, {"combiner": "XOR"}, "combiner"),
            (METRIC, {"bucketOptions": {"linearBuckets": {"width": "1"}}}, "bucketOptions.linearBuckets.width"),
        ],
    )
    def test_it_is_named_with_its_path(self, token: str, changes: dict[str, Any], path: str) -> None:
        _, failures = checked(subject(token), {}, {**GIVEN[token], **changes}, b"")
        assert [failure.path for failure in failures] == [path]

    @pytest.mark.parametrize(
        ("token", "wrong"),
        [
            (CHANNEL, "projects/p/alertPolicies/1"),
            (POLICY, "projects/p/alertPolicies"),
            (DASHBOARD, "d"),
            (SCHEDULE, "projects/p/jobs/j"),
        ],
    )
    def test_an_import_id_of_another_form_shows_the_right_one(self, token: str, wrong: str) -> None:
        with pytest.raises(Refused, match="give projects/PROJECT/"):
            TYPES[token].named_by(wrong)


class TestWhatIsSent:
    def test_a_fraction_stays_one_and_a_threshold_of_zero_is_left_out(self, api: Callable[..., Asked]) -> None:
        conditions = [
            {"displayName": "a", "conditionThreshold": THRESHOLD},
            {"displayName": "b", "conditionThreshold": {**THRESHOLD, "thresholdValue": 0}},
        ]
        asked = api(POST={"name": "projects/demo/alertPolicies/1"}, GET={"name": "projects/demo/alertPolicies/1"})
        created(subject(POLICY), Rest(SETTINGS), inputs_of(POLICY, conditions=conditions), 1)
        sent = [condition["conditionThreshold"].get("thresholdValue") for condition in asked[0][2]["conditions"]]
        assert sent == [1.5, None]

    def test_the_apis_name_becomes_the_id(self, api: Callable[..., Asked]) -> None:
        name = "projects/demo/notificationChannels/7"
        asked = api(POST={"name": name}, GET={"name": name, "type": "email"})
        id_, outputs = created(subject(CHANNEL), Rest(SETTINGS), inputs_of(CHANNEL), 1)
        assert (id_, outputs["name"]) == (name, name)
        assert [each[:2] for each in asked] == [
            ("POST", "monitoring/v3/projects/demo/notificationChannels"),
            ("GET", f"monitoring/v3/{name}"),
        ]

    def test_a_broken_connection_before_the_name_is_known_puts_nothing_into_the_state(
        self, api: Callable[..., Asked]
    ) -> None:
        api(POST=Unfinished("the connection broke"))
        with pytest.raises(ProviderError, match="creating alert policy it: the connection broke") as caught:
            created(subject(POLICY), Rest(SETTINGS), inputs_of(POLICY), 1)
        assert not isinstance(caught.value, Partial)

    def test_a_policy_update_names_what_changed_and_keeps_its_conditions_names(self, api: Callable[..., Asked]) -> None:
        old = inputs_of(POLICY, documentation={"content": "a"})
        new = inputs_of(POLICY, documentation={"content": "b"}, severity="ERROR")
        named = {**LOG_MATCH, "name": "projects/demo/alertPolicies/1/conditions/0"}
        name = "projects/demo/alertPolicies/1"
        state = {**old, "name": name, "conditions": [named]}
        asked = api(GET={"name": name})
        updated(subject(POLICY), Rest(SETTINGS), name, old, new=new, state=state, timeout_s=1)
        method, path, body = asked[0]
        assert (method, path) == ("PATCH", f"monitoring/v3/{name}?updateMask=severity,documentation")
        assert body["conditions"] == [named]

    def test_a_dashboard_is_updated_with_the_etag_that_was_last_seen(self, api: Callable[..., Asked]) -> None:
        old = inputs_of(DASHBOARD)
        new = inputs_of(DASHBOARD, dashboardJson='{"displayName": "e"}')
        state = {**old, "name": "projects/demo/dashboards/1", "etag": "abc"}
        asked = api(GET={"name": state["name"], "etag": "def", "displayName": "e"})
        outputs = updated(subject(DASHBOARD), Rest(SETTINGS), state["name"], old, new=new, state=state, timeout_s=1)
        assert asked[0] == ("PATCH", f"monitoring/v1/{state['name']}", {"displayName": "e", "etag": "abc"})
        assert (outputs["etag"], outputs["dashboardJson"]) == ("def", '{"displayName": "e"}')

    @pytest.mark.parametrize(("force", "query"), [(False, "force=false"), (True, "force=true")])
    def test_a_channel_is_only_taken_out_of_policies_when_that_is_wanted(
        self, api: Callable[..., Asked], force: bool, query: str
    ) -> None:
        state = {**inputs_of(CHANNEL, forceDelete=force), "name": "projects/demo/notificationChannels/7"}
        asked = api()
        deleted(subject(CHANNEL), Rest(SETTINGS), state["name"], state, 1)
        assert asked == [("DELETE", f"monitoring/v3/{state['name']}?{query}", None)]

    @pytest.mark.parametrize(("paused", "verb"), [(False, "resume"), (True, "pause")])
    def test_a_schedule_is_set_going_or_paused_by_a_call_of_its_own(
        self, api: Callable[..., Asked], paused: bool, verb: str
    ) -> None:
        asked = api(GET={"state": "PAUSED" if paused else "ENABLED"})
        _, outputs = created(subject(SCHEDULE), Rest(SETTINGS), inputs_of(SCHEDULE, paused=paused), 1)
        assert [path.rpartition("/")[2] for _, path, _ in asked] == ["jobs", f"s:{verb}", "s"]
        assert "paused" not in asked[0][2]
        assert outputs["paused"] is paused

    def test_pausing_a_schedule_is_an_update(self, api: Callable[..., Asked]) -> None:
        old, new = inputs_of(SCHEDULE), inputs_of(SCHEDULE, paused=True)
        assert [each.path for each in diffed(subject(SCHEDULE), old, new, {**old, "paused": False}, [])[0]] == [
            "paused"
        ]
        asked = api(GET={"state": "PAUSED"})
        updated(subject(SCHEDULE), Rest(SETTINGS), "x", old, new=new, state={**old, "paused": False}, timeout_s=1)
        assert [each[0] for each in asked] == ["PATCH", "POST", "GET"]

    def test_a_metrics_name_is_one_segment_of_the_path(self, api: Callable[..., Asked]) -> None:
        asked = api(GET={"name": "a/b", "filter": "severity=ERROR"})
        created(subject(METRIC), Rest(SETTINGS), inputs_of(METRIC), 1)
        assert [path for _, path, _ in asked] == [
            "logging/v2/projects/demo/metrics",
            "logging/v2/projects/demo/metrics/a%2Fb",
        ]


class TestWhatIsAChange:
    @pytest.mark.parametrize(
        ("token", "changes", "difference"),
        [
            (METRIC, {"filter": "x"}, Difference("filter", Change.UPDATE, replaces=False)),
            (METRIC, {"name": "c"}, Difference("name", Change.UPDATE, replaces=True)),
            (CHANNEL, {"enabled": False}, Difference("enabled", Change.UPDATE, replaces=False)),
            (POLICY, {"notificationChannels": ["c"]}, Difference("notificationChannels", Change.ADD, replaces=False)),
            (DASHBOARD, {"dashboardJson": "{}"}, Difference("dashboardJson", Change.UPDATE, replaces=False)),
            (SCHEDULE, {"region": "us-east1"}, Difference("region", Change.UPDATE, replaces=True)),
            (SCHEDULE, {"schedule": "0 3 * * *"}, Difference("schedule", Change.UPDATE, replaces=False)),
        ],
    )
    def test_it_is_an_update_or_a_replacement(
        self, token: str, changes: dict[str, Any], difference: Difference
    ) -> None:
        old = inputs_of(token)
        assert diffed(subject(token), old, inputs_of(token, **changes), old, [])[0] == [difference]

    def test_spaces_and_the_order_of_keys_change_no_dashboard(self) -> None:
        old = inputs_of(DASHBOARD)
        other = json.dumps(dict(reversed(json.loads(old["dashboardJson"]).items())), indent=2)
        assert diffed(subject(DASHBOARD), old, inputs_of(DASHBOARD, dashboardJson=other), old, [])[0] == []


class TestWhatIsSeen:
    NAME = "projects/demo/dashboards/1"

    def seen(self, api: Callable[..., Asked], answer: dict[str, Any]) -> Any:
        api(GET={"name": self.NAME, "etag": "e", **answer})
        inputs = inputs_of(DASHBOARD)
        found = read(subject(DASHBOARD), Rest(SETTINGS), self.NAME, inputs, {**inputs, "name": self.NAME, "etag": "d"})
        assert found is not None
        return found.inputs["dashboardJson"]

    def test_what_the_api_fills_in_is_no_drift(self, api: Callable[..., Asked]) -> None:
        layout = {"columns": 12, "tiles": []}
        assert self.seen(api, {"displayName": "d", "mosaicLayout": layout}) == GIVEN[DASHBOARD]["dashboardJson"]

    @pytest.mark.parametrize("answer", [{"displayName": "x", "mosaicLayout": {"columns": 12}}, {"displayName": "d"}])
    def test_what_somebody_changed_or_removed_is(self, api: Callable[..., Asked], answer: dict[str, Any]) -> None:
        assert json.loads(self.seen(api, answer)) == answer

    def test_an_import_takes_all_but_what_the_api_gave(self, api: Callable[..., Asked]) -> None:
        api(GET={"name": self.NAME, "etag": "e", "displayName": "d"})
        found = read(subject(DASHBOARD), Rest(SETTINGS), self.NAME, {}, {})
        assert found is not None
        assert (found.id, found.inputs["dashboardJson"]) == (self.NAME, '{"displayName":"d"}')

    def test_a_policy_read_back_equals_what_was_written(self, api: Callable[..., Asked]) -> None:
        inputs, name = inputs_of(POLICY), "projects/demo/alertPolicies/1"
        conditions = [{**LOG_MATCH, "name": f"{name}/conditions/0"}]
        api(GET={**inputs, "name": name, "conditions": conditions, "creationRecord": {"mutatedBy": "me"}})
        found = read(subject(POLICY), Rest(SETTINGS), name, inputs, {**inputs, "name": name})
        assert found is not None
        assert found.inputs == inputs
        assert found.outputs["creationRecords"] == [{"mutatedBy": "me"}]
