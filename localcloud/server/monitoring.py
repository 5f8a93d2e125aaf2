"""Cloud Monitoring: alert policies and notification channels (v3), dashboards (v1).

Kept and answered; nothing is evaluated.
"""

from localcloud.jsontypes import Json, items, obj, objects
from localcloud.kinds import Kind
from localcloud.resources import etag, numeric_id, timestamp
from localcloud.server.errors import aborted, failed_precondition, invalid, not_found
from localcloud.server.http import Call, Routes, page
from localcloud.server.masks import masked

_ALONE = ("conditionMatchedLog", "conditionPrometheusQueryLanguage")
routes_v3 = Routes("/monitoring/v3", "/v3")
routes_v1 = Routes("/monitoring/v1", "/v1")


def _get(call: Call, collection: str) -> Json:
    return call.stored(Kind.MONITORING, f"projects/{call.params['project']}/{collection}/{call.params['id']}")


def _put(call: Call, doc: Json) -> Json:
    call.cloud.store.put(Kind.MONITORING, doc["name"], doc)
    return doc


def _record() -> Json:
    return {"mutateTime": timestamp(), "mutatedBy": "local@localhost"}


def _checked(call: Call, policy: Json) -> Json:
    """What the live API refuses in a policy."""
    conditions = objects(policy.get("conditions"))
    if not conditions:
        raise invalid("alert_policy.conditions: at least one condition is needed.")
    for number, condition in enumerate(conditions):
        kinds = sorted(key for key in condition if key.startswith("condition"))
        if len(kinds) != 1:
            raise invalid(f"alert_policy.conditions[{number}]: exactly one kind of condition is needed, not {kinds}.")
        if kinds[0] in _ALONE and len(conditions) > 1:
            raise invalid(f"alert_policy.conditions[{number}]: {kinds[0]} must be the only condition of its policy.")
        limit = obj(obj(policy.get("alertStrategy")).get("notificationRateLimit")).get("period")
        if "conditionMatchedLog" in condition and not limit:
            raise invalid("alert_policy.alert_strategy.notification_rate_limit is needed for a log match.")
    for channel in policy.get("notificationChannels", []):
        if call.cloud.store.get(Kind.MONITORING, channel) is None:
            raise not_found(channel)
    return policy


def _named_conditions(policy: Json) -> Json:
    for number, condition in enumerate(objects(policy.get("conditions"))):
        condition.setdefault("name", f"{policy['name']}/conditions/{number}")
    return policy


@routes_v3.on("POST", "/projects/{project}/alertPolicies")
def create_policy(call: Call) -> Json:
    """Create an alert policy."""
    name = f"projects/{call.params['project']}/alertPolicies/{numeric_id()}"
    policy = {**_checked(call, call.body), "name": name, "creationRecord": _record(), "mutationRecord": _record()}
    return _put(call, _named_conditions(policy))


@routes_v3.on("PATCH", "/projects/{project}/alertPolicies/{id}")
def patch_policy(call: Call) -> Json:
    """Change what `updateMask` names, or everything that the body carries."""
    old = _get(call, "alertPolicies")
    new = _checked(call, masked(old, call.body, call.query.get("updateMask", "")))
    return _put(call, _named_conditions({**new, "name": old["name"], "mutationRecord": _record()}))


@routes_v3.on("POST", "/projects/{project}/notificationChannels")
def create_channel(call: Call) -> Json:
    """Create a notification channel."""
    if not call.body.get("type"):
        raise invalid("notification_channel.type must not be empty.")
    name = f"projects/{call.params['project']}/notificationChannels/{numeric_id()}"
    return _put(call, {**call.body, "name": name, "creationRecord": _record()})


@routes_v3.on("PATCH", "/projects/{project}/notificationChannels/{id}")
def patch_channel(call: Call) -> Json:
    """Change a channel."""
    old = _get(call, "notificationChannels")
    return _put(call, {**masked(old, call.body, call.query.get("updateMask", "")), "name": old["name"]})


@routes_v1.on("POST", "/projects/{project}/dashboards")
def create_dashboard(call: Call) -> Json:
    """Create a dashboard."""
    name = f"projects/{call.params['project']}/dashboards/{numeric_id()}"
    dashboard: Json = {**_without_zeros(call.body), "name": name}
    return _put(call, {**dashboard, "etag": etag({**dashboard, "at": timestamp()})})


@routes_v1.on("PATCH", "/projects/{project}/dashboards/{id}")
def patch_dashboard(call: Call) -> Json:
    """Replace a dashboard; a stale etag is refused."""
    old = _get(call, "dashboards")
    if call.body.get("etag") not in (None, "", old["etag"]):
        raise aborted(f"Dashboard {old['name']} was changed by somebody else; read it again and repeat.")
    new = {**_without_zeros(call.body), "name": old["name"]}
    return _put(call, {**new, "etag": etag({**new, "at": timestamp()})})


def _without_zeros(message: Json) -> Json:
    """A message as the live API answers it: fields that have their type's zero (`xPos: 0`) are not written."""
    kept: Json = {}
    for key, value in message.items():
        if isinstance(value, dict):
            kept[key] = _without_zeros(obj(value))
        elif isinstance(value, list):
            kept[key] = [_without_zeros(obj(each)) if isinstance(each, dict) else each for each in items(value)]
        elif value:
            kept[key] = value
    return {key: value for key, value in kept.items() if value != []}


def _release(call: Call, channel: str) -> None:
    """Take a channel out of the policies that use it; without `force` it is refused instead."""
    for policy in call.cloud.store.list(Kind.MONITORING, f"projects/{call.params['project']}/alertPolicies/"):
        used = [str(each) for each in items(policy.get("notificationChannels"))]
        if channel not in used:
            continue
        if not call.flag("force"):
            raise failed_precondition(f"Cannot delete channel {channel}: alerting policy {policy['name']} uses it.")
        _put(call, {**policy, "notificationChannels": [each for each in used if each != channel]})


def _add_reads(routes: Routes, collection: str) -> None:
    """GET, list and DELETE, which are alike for all three."""

    @routes.on("GET", f"/projects/{{project}}/{collection}/{{id}}")
    def get_one(call: Call) -> Json:
        return _get(call, collection)

    @routes.on("GET", f"/projects/{{project}}/{collection}")
    def get_all(call: Call) -> Json:
        found = call.cloud.store.list(Kind.MONITORING, f"projects/{call.params['project']}/{collection}/")
        return page(call, found, collection)

    @routes.on("DELETE", f"/projects/{{project}}/{collection}/{{id}}")
    def delete_one(call: Call) -> Json:
        name = str(_get(call, collection)["name"])
        if collection == "notificationChannels":
            _release(call, name)
        call.cloud.store.delete(Kind.MONITORING, name)
        return {}

    del get_one, get_all, delete_one  # registered


_add_reads(routes_v3, "alertPolicies")
_add_reads(routes_v3, "notificationChannels")
_add_reads(routes_v1, "dashboards")
