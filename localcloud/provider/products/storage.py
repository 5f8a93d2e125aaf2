"""Buckets, and members of a bucket's IAM policy."""

from __future__ import annotations

import re
from typing import cast
from urllib.parse import quote

from localcloud.provider.bodies import body_of
from localcloud.provider.errors import ApiError, Refused
from localcloud.provider.fields import flag, many, one, string_map, text, texts, whole
from localcloud.provider.iam import IamMember, member_inputs
from localcloud.provider.labels import label_outputs, merged_labels, own_labels
from localcloud.provider.resource import DELETION_POLICY, PROJECT, ResourceType, fetched, removed
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import UNKNOWN, Values

_ENDPOINT = "storageCustomEndpoint"
_IAM_CONFIGURATION = ("uniformBucketLevelAccess", "publicAccessPrevention")
_WEEK_S = 604_800


def _bare(bucket: str) -> str:
    return bucket.removeprefix("b/")


_LIFECYCLE = many(
    "lifecycleRules",
    one("action", text("type", required=True), text("storageClass"), required=True),
    one(
        "condition",
        whole("age"),
        text("createdBefore"),
        whole("daysSinceNoncurrentTime"),
        texts("matchesPrefixes", api="matchesPrefix"),
        texts("matchesStorageClasses", api="matchesStorageClass"),
        texts("matchesSuffixes", api="matchesSuffix"),
        whole("numNewerVersions"),
        required=True,
        sent_when_blank=True,
    ),
    api="lifecycle.rule",
)


class Bucket(ResourceType):
    token = "gcp:storage/bucket:Bucket"  # noqa: S105
    noun = "bucket"
    identity = ("name",)
    autonamed = "name"
    inputs = (
        PROJECT,
        text("name", required=True, replaces=True),
        # The API answers in upper case.
        text("location", required=True, replaces=True, spelled=str.upper, meaning=str.upper),
        text("storageClass", default="STANDARD"),
        flag("forceDestroy", local=True, default=False),
        flag("uniformBucketLevelAccess", api="iamConfiguration.uniformBucketLevelAccess.enabled", computed=True),
        text("publicAccessPrevention", api="iamConfiguration.publicAccessPrevention", computed=True),
        one(
            "softDeletePolicy",
            whole("retentionDurationSeconds", default=_WEEK_S, as_text=True, sent_when_blank=True),
            computed=True,
        ),
        one(
            "hierarchicalNamespace",
            flag("enabled", required=True, sent_when_blank=True),
            replaces=True,
        ),
        one("versioning", flag("enabled", required=True, sent_when_blank=True), computed=True),
        string_map("labels", owned_keys=True),
        _LIFECYCLE,
        DELETION_POLICY,
    )
    outputs = {  # noqa: RUF012 - declared ClassVar in the base
        "projectNumber": "projectNumber",
        "selfLink": "selfLink",
        "timeCreated": "timeCreated",
        "updated": "updated",
    }

    def id_of(self, inputs: Values) -> str:
        return str(inputs["name"])

    def named_by(self, given: str) -> Values:
        match = re.fullmatch(r"(?:([^/]+)/)?([^/]+)", given)
        if not match:
            raise Refused(f"{given!r} is no bucket; give NAME or PROJECT/NAME")
        return {"name": match[2], "forceDestroy": False, **({"project": match[1]} if match[1] else {})}

    def problems(self, inputs: Values) -> list[tuple[str, str]]:
        name = str(inputs.get("name", ""))
        if name in ("", UNKNOWN) or re.fullmatch(r"[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]", name):
            return []
        return [("name", f"must be 3 to 63 of a-z, 0-9, - and _, begin and end with a letter or digit: {name!r}")]

    def planned(self, inputs: Values) -> Values:
        return {} if inputs["name"] == UNKNOWN else {"url": f"gs://{inputs['name']}"}

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:
        found = super().values(settings, answer, inputs)
        found.update(label_outputs(inputs, answer, settings.default_labels))
        return {**found, "url": f"gs://{answer['name']}", "location": str(answer.get("location", "")).upper()}

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> None:  # noqa: ARG002
        body = body_of(self.inputs, {**inputs, "labels": own_labels(inputs, rest.settings.default_labels)})
        body.setdefault("lifecycle", {"rule": []})
        # Sent even when false: the API's own default depends on the organization.
        access = {"enabled": inputs.get("uniformBucketLevelAccess", False)}
        body.setdefault("iamConfiguration", {})["uniformBucketLevelAccess"] = access
        rest.call("POST", f"{rest.settings.endpoint(_ENDPOINT)}b", query={"project": inputs["project"]}, body=body)

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        return fetched(rest, self._url(rest, inputs))

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        rest.call("PATCH", self._url(rest, state), body=self.patch(rest.settings, old, new, state))

    def patch(self, settings: Settings, old: Values, new: Values, state: Values) -> Values:
        """Only what changed; null takes a label away."""
        fields = {field.name: field for field in self.inputs}
        changed = {name for name in fields if old.get(name) != new.get(name)}
        if changed & set(_IAM_CONFIGURATION):
            changed |= set(_IAM_CONFIGURATION)
        full = {name: new.get(name, state.get(name) if fields[name].computed else None) for name in changed}
        body = body_of(self.inputs, {name: value for name, value in full.items() if name != "labels"})
        if "lifecycleRules" in changed:
            body.setdefault("lifecycle", {"rule": []})
        if "iamConfiguration" in body or changed & set(_IAM_CONFIGURATION):
            access = {"enabled": bool(full.get("uniformBucketLevelAccess"))}
            body.setdefault("iamConfiguration", {})["uniformBucketLevelAccess"] = access
        wanted = merged_labels(new, state, settings.default_labels)
        there = cast("dict[str, str]", state.get("effectiveLabels") or {})
        if wanted != there:
            gone: dict[str, str | None] = {key: None for key in there if key not in wanted}
            body["labels"] = {**gone, **wanted}
        return body

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        url = self._url(rest, state)
        query = {"versions": "true"}
        while True:
            page = fetched(rest, f"{url}/o", query)
            if page is None:
                return  # the bucket is gone already
            items = cast("list[dict[str, str]]", page.get("items", []))
            if items and not state.get("forceDestroy"):
                raise Refused(
                    f"bucket {state['name']} holds objects (gs://{state['name']}/{items[0]['name']} for one) and "
                    "forceDestroy is false, so nothing was deleted. Set it to true and run `pulumi up` first, "
                    "or empty the bucket."
                )
            for item in items:
                _remove_object(rest, url, item)
            if not page.get("nextPageToken"):
                break
            query["pageToken"] = str(page["nextPageToken"])
        removed(rest, url)

    def _url(self, rest: Rest, inputs: Values) -> str:
        return f"{rest.settings.endpoint(_ENDPOINT)}b/{inputs['name']}"


def _remove_object(rest: Rest, url: str, item: dict[str, str]) -> None:
    generation = {"generation": item["generation"]} if item.get("generation") else {}
    try:
        rest.call("DELETE", f"{url}/o/{quote(item['name'], safe='')}", query=generation)
    except ApiError as error:
        if error.code != 404:
            raise


class BucketIamMember(IamMember):
    token = "gcp:storage/bucketIAMMember:BucketIAMMember"  # noqa: S105
    noun = "IAM member of a bucket"
    target_inputs = (text("bucket", required=True, replaces=True, local=True, meaning=_bare),)
    inputs = (*target_inputs, *member_inputs())
    import_form = "b/BUCKET ROLE MEMBER"

    def target_of(self, inputs: Values) -> str:
        return f"b/{_bare(inputs['bucket'])}"

    def target_named(self, name: str) -> Values:
        return {"bucket": _bare(name)}

    def read_policy(self, rest: Rest, target: str) -> Values:
        url = f"{rest.settings.endpoint(_ENDPOINT)}{target}/iam"
        return rest.call("GET", url, query={"optionsRequestedPolicyVersion": "3"})

    def write_policy(self, rest: Rest, target: str, policy: Values) -> None:
        # As Google's provider does it: a policy without bindings is sent without its etag too.
        body = policy if policy.get("bindings") else {"version": 3}
        rest.call("PUT", f"{rest.settings.endpoint(_ENDPOINT)}{target}/iam", body=body)


TYPES = (Bucket(), BucketIamMember())
