"""Cloud Run jobs, and members of a job's IAM policy."""

from __future__ import annotations

import re
import zlib

from localcloud.provider.bodies import body_of, with_choices
from localcloud.provider.errors import Refused
from localcloud.provider.fields import flag, many, one, string_map, text, texts, whole
from localcloud.provider.iam import NamedIamMember, member_inputs
from localcloud.provider.labels import label_outputs, merged_labels, own_labels
from localcloud.provider.resource import DELETION_POLICY, PROJECT, ResourceType, fetched, removed
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import Values, last_part

_ENDPOINT = "cloudRunV2CustomEndpoint"
_FULL_NAME = re.compile(r"projects/([^/]+)/locations/([^/]+)/jobs/([^/]+)")


def set_order(env: Values) -> str:
    """Where a variable stands in the body: Google's provider keeps them as a Terraform set, ordered by hash.

    Source: terraform-plugin-sdk, helper/schema (SerializeResourceForHash, HashString): crc32 as decimal text.
    """
    source = env.get("valueSource")
    inner = ""
    if source:
        ref = source.get("secretKeyRef") or {}
        inner = f"<secret_key_ref:(<secret:{ref.get('secret', '')};version:{ref.get('version', '')};>;);>;"
    return str(zlib.crc32(f"name:{env['name']};value:{env.get('value', '')};value_source:({inner});".encode()))


_ENVS = many(
    "envs",
    text("name", required=True),
    text("value"),
    one("valueSource", one("secretKeyRef", text("secret", required=True), text("version"))),
    api="env",
    key="name",
    order=set_order,
)
_CONTAINER = many(
    "containers",
    text("image", required=True),
    text("name"),
    texts("commands", api="command"),
    texts("args"),
    _ENVS,
    one("resources", string_map("limits", computed=True), computed=True),
    many("ports", text("name", computed=True), whole("containerPort")),
    many("volumeMounts", text("name", required=True), text("mountPath", required=True), text("subPath")),
    text("workingDir"),
    texts("dependsOns", api="dependsOn"),
)
_VOLUMES = many(
    "volumes",
    text("name", required=True),
    one("gcs", text("bucket", required=True), flag("readOnly"), texts("mountOptions")),
    one("emptyDir", text("medium", default="MEMORY"), text("sizeLimit")),
    one("nfs", text("server", required=True), text("path"), flag("readOnly")),
)
_TASK = one(
    "template",
    _CONTAINER,
    _VOLUMES,
    text("timeout", computed=True),
    text("serviceAccount", computed=True),
    text("encryptionKey"),
    text("executionEnvironment", computed=True, choices=("EXECUTION_ENVIRONMENT_GEN1", "EXECUTION_ENVIRONMENT_GEN2")),
    flag("gpuZonalRedundancyDisabled"),
    whole("maxRetries", default=3, sent_when_blank=True),
    one("nodeSelector", text("accelerator", required=True)),
    required=True,
)
_EXECUTION = one(
    "template",
    _TASK,
    string_map("labels"),
    string_map("annotations"),
    whole("parallelism", computed=True),
    whole("taskCount", computed=True),
    required=True,
)


class Job(ResourceType):
    token = "gcp:cloudrunv2/job:Job"  # noqa: S105
    noun = "Cloud Run job"
    identity = ("project", "location", "name")
    autonamed = "name"
    inputs = (
        PROJECT,
        text("location", required=True, replaces=True, local=True),
        text("name", required=True, replaces=True, local=True),
        flag("deletionProtection", default=True, local=True),
        DELETION_POLICY,
        _EXECUTION,
        string_map("labels", owned_keys=True),
        string_map("annotations", owned_keys=True),
        text("client"),
        text("clientVersion"),
        text("launchStage", computed=True, answered=True),
    )
    outputs = {  # noqa: RUF012 - declared ClassVar in the base
        **{
            name: name
            for name in ("conditions", "createTime", "creator", "deleteTime", "etag", "executionCount", "expireTime")
        },
        **{name: name for name in ("generation", "lastModifier", "observedGeneration", "reconciling", "uid")},
        "effectiveAnnotations": "annotations",
        "updateTime": "updateTime",
    }

    def id_of(self, inputs: Values) -> str:
        return f"projects/{inputs['project']}/locations/{inputs['location']}/jobs/{inputs['name']}"

    def named_by(self, given: str) -> Values:
        match = _FULL_NAME.fullmatch(given)
        if not match:
            raise Refused(f"{given!r} is no Cloud Run job; give projects/PROJECT/locations/LOCATION/jobs/NAME")
        return {"project": match[1], "location": match[2], "name": match[3], "deletionProtection": True}

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:
        found = super().values(settings, answer, inputs)
        found.update(label_outputs(inputs, answer, settings.default_labels))
        there = answer.get("annotations") or {}
        found["annotations"] = {key: there[key] for key in inputs.get("annotations") or {} if key in there}
        found["effectiveAnnotations"] = there
        found["terminalConditions"] = [answer["terminalCondition"]] if answer.get("terminalCondition") else []
        latest = answer.get("latestCreatedExecution")
        found["latestCreatedExecutions"] = [latest] if latest else []
        return found

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> None:
        body = body_of(self.inputs, {**inputs, "labels": own_labels(inputs, rest.settings.default_labels)})
        base = rest.settings.endpoint(_ENDPOINT)
        url = f"{base}projects/{inputs['project']}/locations/{inputs['location']}/jobs"
        rest.wait(base, rest.call("POST", url, query={"jobId": inputs["name"]}, body=body), timeout_s)

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        return fetched(rest, self._url(rest, inputs))

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        operation = rest.call("PATCH", self._url(rest, state), body=self.patch(rest.settings, new, state))
        rest.wait(rest.settings.endpoint(_ENDPOINT), operation, timeout_s)

    def patch(self, settings: Settings, new: Values, state: Values) -> Values:
        """The whole job: without a mask, what is missing would be reset to the API's defaults."""
        full = with_choices(self.inputs, new, state)
        full["labels"] = merged_labels(new, state, settings.default_labels)
        full["annotations"] = merged_labels(new, state, {}, "annotations", "effectiveAnnotations")
        return body_of(self.inputs, full)

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:
        if state.get("deletionProtection", True):
            raise Refused(
                f"Cloud Run job {self.id_of(state)} is protected, so nothing was sent. Set deletionProtection to false "
                "and run `pulumi up` first."
            )
        operation = removed(rest, self._url(rest, state))
        if operation is not None:
            rest.wait(rest.settings.endpoint(_ENDPOINT), operation, timeout_s)

    def _url(self, rest: Rest, inputs: Values) -> str:
        return rest.settings.endpoint(_ENDPOINT) + self.id_of(inputs)


class JobIamMember(NamedIamMember):
    token = "gcp:cloudrunv2/jobIamMember:JobIamMember"  # noqa: S105
    noun = "IAM member of a Cloud Run job"
    regional = "location"
    target_inputs = (
        PROJECT,
        text("location", required=True, replaces=True, local=True),
        text("name", required=True, replaces=True, local=True, meaning=last_part),
    )
    inputs = (*target_inputs, *member_inputs())
    import_form = "projects/PROJECT/locations/LOCATION/jobs/NAME ROLE MEMBER"
    endpoint = _ENDPOINT
    full_name = "projects/{project}/locations/{location}/jobs/{name}"
    target_noun = "Cloud Run job"


TYPES = (Job(), JobIamMember())
