"""Scheduled HTTP calls."""

from __future__ import annotations

import re

from localcloud.provider.bodies import body_of
from localcloud.provider.errors import Refused
from localcloud.provider.fields import flag, one, string_map, text, whole
from localcloud.provider.resource import DELETION_POLICY, PROJECT, ResourceType, fetched, removed
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import Values

_ENDPOINT = "cloudSchedulerCustomEndpoint"
_FULL_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/jobs/([^/]+)")


class Job(ResourceType):
    token = "gcp:cloudscheduler/job:Job"  # noqa: S105
    noun = "scheduled job"
    identity = ("project", "region", "name")
    autonamed = "name"
    regional = "region"
    inputs = (
        PROJECT,
        text("region", required=True, replaces=True, local=True),
        text("name", required=True, replaces=True, local=True),
        text("description"),
        text("schedule"),
        text("timeZone", default="Etc/UTC"),
        text("attemptDeadline", computed=True),
        flag("paused", computed=True),
        one(
            "retryConfig",
            whole("retryCount", computed=True),
            text("maxRetryDuration", computed=True),
            text("minBackoffDuration", computed=True),
            text("maxBackoffDuration", computed=True),
            whole("maxDoublings", computed=True),
            computed=True,
        ),
        one(
            "httpTarget",
            text("uri", required=True),
            text("httpMethod", computed=True),
            text("body"),
            string_map("headers", computed=True),
            one("oauthToken", text("serviceAccountEmail", required=True), text("scope", computed=True)),
            one("oidcToken", text("serviceAccountEmail", required=True), text("audience", computed=True)),
        ),
        DELETION_POLICY,
    )
    outputs = {"state": "state"}  # noqa: RUF012 - declared ClassVar in the base

    def id_of(self, inputs: Values) -> str:
        return f"projects/{inputs['project']}/locations/{inputs['region']}/jobs/{inputs['name']}"

    def named_by(self, given: str) -> Values:
        match = _FULL_NAME.fullmatch(given)
        if not match:
            raise Refused(f"{given!r} is no scheduled job; give projects/PROJECT/locations/REGION/jobs/NAME")
        return {"project": match[1], "region": match[2], "name": match[3]}

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:
        found = super().values(settings, answer, inputs)
        return {**found, "paused": answer.get("state") == "PAUSED"}

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> None:  # noqa: ARG002
        parent, _, _ = self._url(rest, inputs).rpartition("/")
        rest.call("POST", parent, body={**self._body(inputs), "name": self.id_of(inputs)})
        self._set_state(rest, inputs)

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        return fetched(rest, self._url(rest, inputs))

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        rest.call("PATCH", self._url(rest, state), body=self._body(new))
        if bool(old.get("paused")) != bool(new.get("paused")):
            self._set_state(rest, new)

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        removed(rest, self._url(rest, state))

    def _set_state(self, rest: Rest, inputs: Values) -> None:
        rest.call("POST", f"{self._url(rest, inputs)}:{'pause' if inputs.get('paused') else 'resume'}")

    def _body(self, inputs: Values) -> Values:
        """Whether it is paused is no field of the job: it has a call of its own."""
        return body_of(self.inputs, {name: value for name, value in inputs.items() if name != "paused"})

    def _url(self, rest: Rest, inputs: Values) -> str:
        return rest.settings.endpoint(_ENDPOINT) + self.id_of(inputs)


TYPES = (Job(),)
