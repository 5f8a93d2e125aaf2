"""Enabled services of a project, and members of its IAM policy."""

from __future__ import annotations

import re

from localcloud.provider.errors import ApiError, Refused
from localcloud.provider.fields import flag, text
from localcloud.provider.iam import IamMember, member_inputs
from localcloud.provider.resource import DELETION_POLICY, GONE, PROJECT, ResourceType, fetched
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import UNKNOWN, Values


def _calls(settings: Settings) -> str:
    """Changes and reads go to v1, although the endpoint is configured for v1beta1."""
    return re.sub(r"v1beta1/$", "v1/", settings.endpoint("serviceUsageCustomEndpoint"))


class Service(ResourceType):
    """An API that is switched on for a project."""

    token = "gcp:projects/service:Service"  # noqa: S105
    noun = "service"
    identity = ("project", "service")
    inputs = (
        PROJECT,
        text("service", required=True, replaces=True, local=True),
        flag("disableOnDestroy", local=True, default=False),
        flag("disableDependentServices", local=True),
        flag("checkIfServiceHasUsageOnDestroy", local=True),
        DELETION_POLICY,
    )

    def id_of(self, inputs: Values) -> str:
        return f"{inputs['project']}/{inputs['service']}"

    def named_by(self, given: str) -> Values:
        match = re.fullmatch(r"(?:projects/)?([^/]+)/(?:services/)?([^/]+)", given)
        if not match:
            raise Refused(f"{given!r} is no service; give PROJECT/NAME.googleapis.com")
        return {"project": match[1], "service": match[2], "disableOnDestroy": False}

    def problems(self, inputs: Values) -> list[tuple[str, str]]:
        service = str(inputs.get("service", ""))
        if service and service != UNKNOWN and "." not in service:
            return [("service", f"must be a full name such as {service}.googleapis.com, not {service!r}")]
        return []

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> None:
        if self.fetch(rest, inputs) is not None:
            return
        url = f"{_calls(rest.settings)}projects/{inputs['project']}/services/{inputs['service']}:enable"
        rest.wait(_calls(rest.settings), rest.call("POST", url), timeout_s)

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        project = fetched(
            rest, f"{rest.settings.endpoint('resourceManagerCustomEndpoint')}projects/{inputs['project']}"
        )
        if project is None or project.get("lifecycleState") != "ACTIVE":
            return None
        query = {"fields": "services/name,nextPageToken", "filter": "state:ENABLED", "pageSize": "200"}
        while True:
            page = rest.call("GET", f"{_calls(rest.settings)}projects/{inputs['project']}/services", query=query)
            for service in page.get("services", []):
                if str(service["name"]).rsplit("/", 1)[-1] == inputs["service"]:
                    return service
            if not page.get("nextPageToken"):
                return None
            query["pageToken"] = str(page["nextPageToken"])

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:
        """Only what happens on destroy can change; the API has no part in it."""

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:
        if not state.get("disableOnDestroy"):
            return
        url = f"{_calls(rest.settings)}projects/{state['project']}/services/{state['service']}:disable"
        body: Values = {}
        if state.get("disableDependentServices"):
            body["disableDependentServices"] = True
        if state.get("checkIfServiceHasUsageOnDestroy"):
            body["checkIfServiceHasUsage"] = "CHECK"
        try:
            rest.wait(_calls(rest.settings), rest.call("POST", url, body=body), timeout_s)
        except ApiError as error:
            if error.code != GONE:
                raise


class ProjectIamMember(IamMember):
    token = "gcp:projects/iAMMember:IAMMember"  # noqa: S105
    noun = "IAM member of a project"
    target_inputs = (text("project", required=True, replaces=True, local=True),)
    inputs = (*target_inputs, *member_inputs())
    import_form = "PROJECT ROLE MEMBER"

    def target_of(self, inputs: Values) -> str:
        return str(inputs["project"]).removeprefix("projects/")

    def target_named(self, name: str) -> Values:
        return {"project": name.removeprefix("projects/")}

    def _url(self, rest: Rest, target: str) -> str:
        return f"{rest.settings.endpoint('resourceManagerCustomEndpoint')}projects/{target}"

    def read_policy(self, rest: Rest, target: str) -> Values:
        body: Values = {"options": {"requestedPolicyVersion": 3}}
        return rest.call("POST", f"{self._url(rest, target)}:getIamPolicy", body=body)

    def write_policy(self, rest: Rest, target: str, policy: Values) -> None:
        body: Values = {"policy": policy, "updateMask": "bindings,etag,auditConfigs"}
        rest.call("POST", f"{self._url(rest, target)}:setIamPolicy", body=body)


TYPES = (Service(), ProjectIamMember())
