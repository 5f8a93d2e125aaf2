"""Log-based metrics."""

from __future__ import annotations

from urllib.parse import quote

from localcloud.provider.bodies import body_of
from localcloud.provider.fields import flag, many, number, one, string_map, text, whole
from localcloud.provider.resource import DELETION_POLICY, PROJECT, ResourceType, fetched, removed
from localcloud.provider.rest import Rest
from localcloud.provider.values import Values

_ENDPOINT = "loggingCustomEndpoint"

_DESCRIPTOR = one(
    "metricDescriptor",
    text("metricKind", required=True),
    text("valueType", required=True),
    text("displayName"),
    text("unit", default="1"),
    many(
        "labels",
        text("key", required=True),
        text("valueType", default="STRING", choices=("BOOL", "INT64", "STRING")),
        text("description"),
        key="key",
    ),
    # Without one the API makes it a counter.
    computed=True,
)
_BUCKETS = one(
    "bucketOptions",
    one("linearBuckets", whole("numFiniteBuckets"), number("width"), number("offset")),
    one("exponentialBuckets", whole("numFiniteBuckets"), number("growthFactor"), number("scale")),
)


class Metric(ResourceType):
    token = "gcp:logging/metric:Metric"  # noqa: S105
    noun = "log-based metric"
    identity = ("project", "name")
    autonamed = "name"
    inputs = (
        PROJECT,
        text("name", required=True, replaces=True),
        text("filter", required=True),
        text("description"),
        text("bucketName"),
        flag("disabled"),
        text("valueExtractor"),
        string_map("labelExtractors"),
        _DESCRIPTOR,
        _BUCKETS,
        DELETION_POLICY,
    )

    def id_of(self, inputs: Values) -> str:
        return str(inputs["name"])

    def named_by(self, given: str) -> Values:
        return {"name": given}

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> None:  # noqa: ARG002
        rest.call("POST", _metrics(rest, inputs), body=body_of(self.inputs, inputs))

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        return fetched(rest, _url(rest, inputs))

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        rest.call("PUT", _url(rest, state), body=body_of(self.inputs, new))

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        removed(rest, _url(rest, state))


def _metrics(rest: Rest, inputs: Values) -> str:
    return f"{rest.settings.endpoint(_ENDPOINT)}projects/{inputs['project']}/metrics"


def _url(rest: Rest, inputs: Values) -> str:
    """A metric's name may hold slashes, which the API wants escaped."""
    return f"{_metrics(rest, inputs)}/{quote(inputs['name'], safe='')}"


TYPES = (Metric(),)
