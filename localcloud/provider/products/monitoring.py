"""Notification channels, alert policies and dashboards. The API names them: their id is known after creation only."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import ClassVar

from localcloud.provider.bodies import body_of, with_choices
from localcloud.provider.diffing import differences
from localcloud.provider.errors import Refused
from localcloud.provider.fields import Field, flag, many, number, one, string_map, text, texts, whole
from localcloud.provider.products import dashboard_json
from localcloud.provider.resource import DELETION_POLICY, PROJECT, ResourceType, fetched, removed
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import UNKNOWN, Values

_ENDPOINT = "monitoringCustomEndpoint"


class _Named(ResourceType):
    """Base: created in a collection of the project, named by the API."""

    identity = ("project",)
    version: ClassVar[str]
    collection: ClassVar[str]
    outputs: ClassVar[dict[str, str]] = {"name": "name"}

    def id_of(self, inputs: Values) -> str:
        return str(inputs.get("name") or "")

    def named_by(self, given: str) -> Values:
        match = re.fullmatch(rf"projects/([^/]+)/{self.collection}/[^/]+", given)
        if not match:
            raise Refused(f"{given!r} is no {self.noun}; give projects/PROJECT/{self.collection}/ID")
        return {"project": match[1], "name": given}

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> Values:  # noqa: ARG002
        url = f"{self._base(rest)}projects/{inputs['project']}/{self.collection}"
        return {"name": rest.call("POST", url, body=self.body(inputs))["name"]}

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        return fetched(rest, self._url(rest, inputs))

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        removed(rest, self._url(rest, state))

    @abstractmethod
    def body(self, inputs: Values) -> Values:
        """What is sent to create the object."""

    def _base(self, rest: Rest) -> str:
        return f"{rest.settings.endpoint(_ENDPOINT)}{self.version}/"

    def _url(self, rest: Rest, inputs: Values) -> str:
        return f"{self._base(rest)}{inputs['name']}"


class NotificationChannel(_Named):
    token = "gcp:monitoring/notificationChannel:NotificationChannel"  # noqa: S105
    noun = "notification channel"
    version, collection = "v3", "notificationChannels"
    inputs = (
        PROJECT,
        text("type", required=True),
        text("displayName"),
        text("description"),
        flag("enabled", default=True, sent_when_blank=True),
        flag("forceDelete", local=True, default=False),
        string_map("labels"),
        string_map("userLabels"),
        DELETION_POLICY,
    )
    outputs: ClassVar[dict[str, str]] = {"name": "name", "verificationStatus": "verificationStatus"}

    def body(self, inputs: Values) -> Values:
        return body_of(self.inputs, inputs)

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        rest.call("PATCH", self._url(rest, state), body=self.body(new))

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        # Forced, the API takes the channel out of the policies that use it; otherwise it refuses.
        removed(rest, self._url(rest, state), {"force": "true" if state.get("forceDelete") else "false"})


def _aggregations() -> Field:
    return many(
        "aggregations",
        text("alignmentPeriod"),
        text("perSeriesAligner"),
        text("crossSeriesReducer"),
        texts("groupByFields"),
    )


_TRIGGER = one("trigger", whole("count"), number("percent"))
_CONDITIONS = many(
    "conditions",
    text("displayName", required=True),
    text("name", computed=True),
    one(
        "conditionThreshold",
        text("filter"),
        text("comparison", required=True),
        number("thresholdValue"),
        text("duration", required=True),
        _aggregations(),
        text("evaluationMissingData"),
        _TRIGGER,
    ),
    one("conditionAbsent", text("filter"), text("duration", required=True), _aggregations(), _TRIGGER),
    one("conditionMatchedLog", text("filter", required=True), string_map("labelExtractors")),
    one(
        "conditionPrometheusQueryLanguage",
        text("query", required=True),
        text("duration"),
        text("evaluationInterval"),
        string_map("labels"),
        text("ruleGroup"),
        text("alertRule"),
        flag("disableMetricValidation"),
    ),
    required=True,
)
_MASK_ORDER = (
    *("displayName", "combiner", "enabled", "conditions", "notificationChannels", "alertStrategy", "userLabels"),
    *("severity", "documentation"),
)


class AlertPolicy(_Named):
    token = "gcp:monitoring/alertPolicy:AlertPolicy"  # noqa: S105
    noun = "alert policy"
    version, collection = "v3", "alertPolicies"
    inputs = (
        PROJECT,
        text("displayName", required=True),
        text("combiner", required=True, choices=("AND", "OR", "AND_WITH_MATCHING_RESOURCE")),
        flag("enabled", default=True, sent_when_blank=True),
        _CONDITIONS,
        texts("notificationChannels"),
        one(
            "alertStrategy",
            text("autoClose"),
            texts("notificationPrompts"),
            one("notificationRateLimit", text("period")),
            many("notificationChannelStrategies", texts("notificationChannelNames"), text("renotifyInterval")),
        ),
        one(
            "documentation",
            text("content"),
            text("mimeType", default="text/markdown"),
            text("subject"),
            many("links", text("displayName"), text("url")),
        ),
        text("severity"),
        string_map("userLabels"),
        DELETION_POLICY,
    )

    def body(self, inputs: Values) -> Values:
        return body_of(self.inputs, inputs)

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:
        found = super().values(settings, answer, inputs)
        record = answer.get("creationRecord")
        return {**found, "creationRecords": [record] if record else []}

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        changed = {difference.top for difference in differences(self.inputs, old, new, state)}
        mask = [name for name in _MASK_ORDER if name in changed]
        if mask:
            # With the conditions' names: without them they would be new ones, and open incidents would close.
            body = self.body(with_choices(self.inputs, new, state))
            rest.call("PATCH", self._url(rest, state), query={"updateMask": ",".join(mask)}, body=body)


class Dashboard(_Named):
    token = "gcp:monitoring/dashboard:Dashboard"  # noqa: S105
    noun = "dashboard"
    version, collection = "v1", "dashboards"
    inputs = (PROJECT, text("dashboardJson", required=True, meaning=dashboard_json.canonical), DELETION_POLICY)
    outputs: ClassVar[dict[str, str]] = {}

    def problems(self, inputs: Values) -> list[tuple[str, str]]:
        given = inputs.get("dashboardJson")
        if given in (None, UNKNOWN) or dashboard_json.parsed(str(given)) is not None:
            return []
        return [("dashboardJson", "must be the JSON text of an object")]

    def body(self, inputs: Values) -> Values:
        return dashboard_json.parsed(str(inputs["dashboardJson"])) or {}

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:
        found = super().values(settings, answer, inputs)
        # Name and etag are no properties of the SDK's class; the state keeps them for the next request.
        found.update(name=answer["name"], etag=answer.get("etag", ""))
        return {**found, "dashboardJson": dashboard_json.seen(inputs.get("dashboardJson"), answer)}

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        rest.call("PATCH", self._url(rest, state), body={**self.body(new), "etag": state["etag"]})


TYPES = (NotificationChannel(), AlertPolicy(), Dashboard())
