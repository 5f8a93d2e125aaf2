"""Docker repositories, and members of a repository's IAM policy."""

from __future__ import annotations

import re

from localcloud.provider.bodies import body_of
from localcloud.provider.diffing import differences
from localcloud.provider.errors import Refused
from localcloud.provider.fields import flag, many, one, string_map, text, texts, whole
from localcloud.provider.iam import NamedIamMember, member_inputs
from localcloud.provider.labels import label_outputs, merged_labels, own_labels
from localcloud.provider.resource import DELETION_POLICY, PROJECT, ResourceType, fetched, removed
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import UNKNOWN, Values, last_part

_ENDPOINT = "artifactRegistryCustomEndpoint"
_FULL_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/repositories/([^/]+)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_UPDATABLE = ("description", "labels", "dockerConfig", "cleanupPolicies", "cleanupPolicyDryRun")


def in_seconds(duration: str) -> str:
    """`30d` and `2592000s` are the same to the API, which answers with the latter."""
    match = re.fullmatch(r"(\d+)([smhd])", str(duration))
    return f"{int(match[1]) * _UNITS_S[match[2]]}s" if match else str(duration)


_CLEANUP = many(
    "cleanupPolicies",
    text("id", required=True),
    text("action", choices=("DELETE", "KEEP")),
    one(
        "condition",
        text("tagState", default="ANY", choices=("ANY", "TAGGED", "UNTAGGED")),
        texts("tagPrefixes"),
        texts("versionNamePrefixes"),
        texts("packageNamePrefixes"),
        text("olderThan", meaning=in_seconds),
        text("newerThan", meaning=in_seconds),
    ),
    one("mostRecentVersions", texts("packageNamePrefixes"), whole("keepCount")),
    key="id",
    key_outside=True,
)


class Repository(ResourceType):
    token = "gcp:artifactregistry/repository:Repository"  # noqa: S105
    noun = "repository"
    identity = ("project", "location", "repositoryId")
    regional = "location"
    inputs = (
        PROJECT,
        text("location", required=True, replaces=True, local=True),
        text("repositoryId", required=True, replaces=True, local=True),
        text("format", required=True, replaces=True, spelled=str.upper, meaning=str.upper),
        text("mode", default="STANDARD_REPOSITORY", replaces=True),
        text("description"),
        text("kmsKeyName", replaces=True),
        flag("cleanupPolicyDryRun"),
        one("dockerConfig", flag("immutableTags")),
        string_map("labels", owned_keys=True),
        _CLEANUP,
        DELETION_POLICY,
    )
    outputs = {"createTime": "createTime", "updateTime": "updateTime"}  # noqa: RUF012 - declared ClassVar in the base

    def id_of(self, inputs: Values) -> str:
        return f"projects/{inputs['project']}/locations/{inputs['location']}/repositories/{inputs['repositoryId']}"

    def named_by(self, given: str) -> Values:
        match = _FULL_NAME.fullmatch(given)
        if not match:
            raise Refused(f"{given!r} is no repository; give projects/PROJECT/locations/LOCATION/repositories/NAME")
        return {"project": match[1], "location": match[2], "repositoryId": match[3]}

    def planned(self, inputs: Values) -> Values:
        names = [inputs[key] for key in self.identity]
        if UNKNOWN in names:
            return {}
        project, location, name = names
        return {"name": name, "registryUri": f"{location}-docker.pkg.dev/{project}/{name}"}

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:
        found = super().values(settings, answer, inputs)
        found.update(label_outputs(inputs, answer, settings.default_labels))
        found.update(self.planned(inputs))
        return found

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> None:
        body = body_of(self.inputs, {**inputs, "labels": own_labels(inputs, rest.settings.default_labels)})
        base = rest.settings.endpoint(_ENDPOINT)
        url = f"{base}projects/{inputs['project']}/locations/{inputs['location']}/repositories"
        operation = rest.call("POST", url, query={"repository_id": inputs["repositoryId"]}, body=body)
        rest.wait(base, operation, timeout_s)

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        return fetched(rest, self._url(rest, inputs))

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        changed = {difference.top for difference in differences(self.inputs, old, new, state)}
        wanted = merged_labels(new, state, rest.settings.default_labels)
        if wanted != (state.get("effectiveLabels") or {}):
            changed.add("labels")
        mask = [name for name in _UPDATABLE if name in changed]
        if not mask:
            return
        fields = tuple(field for field in self.inputs if field.name in _UPDATABLE)
        body = body_of(fields, {**new, "labels": wanted})
        rest.call("PATCH", self._url(rest, state), query={"updateMask": ",".join(mask)}, body=body)

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:
        operation = removed(rest, self._url(rest, state))
        if operation is not None:
            rest.wait(rest.settings.endpoint(_ENDPOINT), operation, timeout_s)

    def _url(self, rest: Rest, inputs: Values) -> str:
        return rest.settings.endpoint(_ENDPOINT) + self.id_of(inputs)


class RepositoryIamMember(NamedIamMember):
    token = "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"  # noqa: S105
    noun = "IAM member of a repository"
    regional = "location"
    target_inputs = (
        PROJECT,
        text("location", required=True, replaces=True, local=True),
        text(
            "repository",
            required=True,
            replaces=True,
            local=True,
            meaning=last_part,
        ),
    )
    inputs = (*target_inputs, *member_inputs())
    import_form = "projects/PROJECT/locations/LOCATION/repositories/NAME ROLE MEMBER"
    endpoint = _ENDPOINT
    full_name = "projects/{project}/locations/{location}/repositories/{repository}"
    target_noun = "repository"


TYPES = (Repository(), RepositoryIamMember())
