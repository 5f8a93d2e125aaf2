"""Cloud Monitoring: alert policies and notification channels (v3), dashboards (v1).

Kept and answered; nothing is evaluated.
"""

from localcloud.jsontypes import Json, objects
from localcloud.resources import etag, numeric_id, timestamp
from localcloud.server.errors import aborted, invalid, not_found
from localcloud.server.http import Call, Routes, page
from localcloud.server.masks import masked, merged

KIND = "monitoring"
routes_v3 = Routes("/monitoring/v3", "/v3")
routes_v1 = Routes("/monitoring/v1", "/v1")


def _get(call: Call, collection: str) -> Json:
    name = f"projects/{call.params['project']}/{collection}/{call.params['id']}"
    found = call.cloud.store.get(KIND, name)
    if found is None:
        raise not_found(name)
    return found


def _put(call: Call, doc: Json) -> Json:
    call.cloud.store.put(KIND, doc["name"], doc)
    return doc


def _record() -> Json:
    return {"mutateTime": timestamp(), "mutatedBy": "local@localhost"}


def _named_conditions(policy: Json) -> Json:
    for number, condition in enumerate(objects(policy.get("conditions"))):
        condition.setdefault("name", f"{policy['name']}/conditions/{number}")
    return policy


@routes_v3.on("POST", "/projects/{project}/alertPolicies")
def create_policy(call: Call) -> Json:
    """Create an alert policy."""
    if not objects(call.body.get("conditions")):
        raise invalid("alert_policy.conditions: at least one condition is needed.")
    for channel in call.body.get("notificationChannels", []):
        if call.cloud.store.get(KIND, channel) is None:
            raise not_found(channel)
    name = f"projects/{call.params['project']}/alertPolicies/{numeric_id()}"
    policy = {**call.body, "name": name, "creationRecord": _record(), "mutationRecord": _record()}
    return _put(call, _named_conditions(policy))


@routes_v3.on("PATCH", "/projects/{project}/alertPolicies/{id}")
def patch_policy(call: Call) -> Json:
    """Change what `updateMask` names, or everything that the body carries."""
    old = _get(call, "alertPolicies")
    new = masked(old, call.body, call.query.get("updateMask", ""))
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
    dashboard: Json = {**call.body, "name": f"projects/{call.params['project']}/dashboards/{numeric_id()}"}
    return _put(call, {**dashboard, "etag": etag({**dashboard, "at": timestamp()})})


@routes_v1.on("PATCH", "/projects/{project}/dashboards/{id}")
def patch_dashboard(call: Call) -> Json:
    """Replace a dashboard; a stale etag is refused."""
    old = _get(call, "dashboards")
    if call.body.get("etag") not in (None, "", old["etag"]):
        raise aborted(f"Dashboard {old['name']} was changed by somebody else; read it again and repeat.")
    new = {**call.body, "name": old["name"]}
    return _put(call, {**new, "etag": etag({**merged(old, new), "at": timestamp()})})


def _add_reads(routes: Routes, collection: str) -> None:
    """GET, list and DELETE, which are alike for all three."""

    @routes.on("GET", f"/projects/{{project}}/{collection}/{{id}}")
    def get_one(call: Call) -> Json:
        return _get(call, collection)

    @routes.on("GET", f"/projects/{{project}}/{collection}")
    def get_all(call: Call) -> Json:
        found = call.cloud.store.list(KIND, f"projects/{call.params['project']}/{collection}/")
        return page(call, found, collection)

    @routes.on("DELETE", f"/projects/{{project}}/{collection}/{{id}}")
    def delete_one(call: Call) -> Json:
        call.cloud.store.delete(KIND, _get(call, collection)["name"])
        return {}

    del get_one, get_all, delete_one  # registered


_add_reads(routes_v3, "alertPolicies")
_add_reads(routes_v3, "notificationChannels")
_add_reads(routes_v1, "dashboards")
