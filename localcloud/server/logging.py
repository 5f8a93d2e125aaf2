"""Cloud Logging v2: entries, and log-based metrics (kept, not computed)."""

from localcloud.jsontypes import Json, items, obj, objects, strings
from localcloud.kinds import Kind
from localcloud.logs.comparisons import FilterError
from localcloud.logs.filter import Filter, compile_filter
from localcloud.resources import timestamp
from localcloud.server.errors import already_exists, invalid
from localcloud.server.http import Call, Routes

routes = Routes("/logging/v2", "/v2")
_METRICS = "/projects/{project}/metrics"
_ORDERS = {"": False, "timestamp asc": False, "timestamp": False, "timestamp desc": True}
_PAGE = 1000


def _compiled(text: str) -> Filter:
    try:
        return compile_filter(text)
    except FilterError as error:
        raise invalid(str(error)) from error


@routes.on("POST", "/entries:list")
def list_entries(call: Call) -> Json:
    """Entries of one project that match the filter; a page token is the number of matches already given."""
    names = [str(each) for each in items(call.body.get("resourceNames"))]
    names += [f"projects/{each}" for each in items(call.body.get("projectIds"))]
    projects = sorted({name.split("/")[1] for name in names if name.startswith("projects/")})
    if len(projects) != 1:
        raise invalid(f"resourceNames: exactly one project (projects/ID) is supported by the local cloud, not {names}.")
    order = str(call.body.get("orderBy", ""))
    if order not in _ORDERS:
        raise invalid(f"orderBy: {order!r} is not supported; 'timestamp asc' and 'timestamp desc' are.")
    compiled = _compiled(str(call.body.get("filter", "")))
    try:
        start, size = int(call.body.get("pageToken") or 0), int(call.body.get("pageSize") or 50)
    except ValueError as error:
        raise invalid("pageToken must be one of an earlier answer.") from error
    size = max(1, min(size, _PAGE))
    found: list[Json] = []
    for seen, entry in enumerate(
        call.cloud.logs.read(
            projects[0], compiled.matches, since=compiled.since, until=compiled.until, newest_first=_ORDERS[order]
        )
    ):
        if seen >= start + size:
            return {"entries": found, "nextPageToken": str(start + size)}
        if seen >= start:
            found.append(entry)
    return {"entries": found} if found else {}


@routes.on("POST", "/entries:write")
def write_entries(call: Call) -> Json:
    """Add entries; common log name, resource and labels apply where an entry has none."""
    for sent in objects(call.body.get("entries")):
        common = {key: call.body[key] for key in ("logName", "resource") if call.body.get(key)}
        entry = {**common, **sent, "labels": {**strings(call.body.get("labels")), **strings(sent.get("labels"))}}
        name = str(entry.get("logName", ""))
        if not name.startswith("projects/") or "/logs/" not in name:
            raise invalid(f"log_name: {name!r} must read projects/PROJECT/logs/LOG.")
        entry.setdefault("resource", {"type": "global", "labels": {"project_id": name.split("/")[1]}})
        if not call.body.get("dryRun"):
            call.cloud.logs.append(name.split("/")[1], entry)
    return {}


def _metric_key(call: Call, name: str) -> str:
    return f"projects/{call.params['project']}/metrics/{name}"


def _metric(call: Call) -> Json:
    return call.stored(Kind.METRIC, _metric_key(call, call.params["metric"]))


def _checked(metric: Json) -> Json:
    if not metric.get("name"):
        raise invalid("metric.name must not be empty.")
    if not metric.get("filter"):
        raise invalid("metric.filter must not be empty.")
    metric.setdefault("metricDescriptor", {"metricKind": "DELTA", "valueType": "INT64", "unit": "1"})
    distribution = obj(metric["metricDescriptor"]).get("valueType") == "DISTRIBUTION"
    if bool(metric.get("valueExtractor")) != distribution:
        raise invalid("metric.value_extractor is needed for a DISTRIBUTION, and allowed for no other value type.")
    return metric


@routes.on("POST", _METRICS)
def create_metric(call: Call) -> Json:
    """Create a log-based metric."""
    metric, now = _checked(call.body), timestamp()
    key = _metric_key(call, metric["name"])
    if call.cloud.store.get(Kind.METRIC, key) is not None:
        raise already_exists(key)
    return _store(call, key, {**metric, "createTime": now, "updateTime": now})


def _store(call: Call, key: str, metric: Json) -> Json:
    kind = f"logging.googleapis.com/user/{metric['name']}"
    own = f"projects/{call.params['project']}/metricDescriptors/{kind}"
    metric["metricDescriptor"] = {**obj(metric["metricDescriptor"]), "type": kind, "name": own}
    call.cloud.store.put(Kind.METRIC, key, metric)
    return metric


@routes.on("GET", _METRICS)
def list_metrics(call: Call) -> Json:
    """Metrics of a project."""
    return {"metrics": call.cloud.store.list(Kind.METRIC, _metric_key(call, ""))}


@routes.on("GET", _METRICS + "/{metric}")
def get_metric(call: Call) -> Json:
    """One metric."""
    return _metric(call)


@routes.on("PUT", _METRICS + "/{metric}")
def update_metric(call: Call) -> Json:
    """Replace a metric."""
    old = call.cloud.store.get(Kind.METRIC, _metric_key(call, call.params["metric"])) or {"createTime": timestamp()}
    new = {**_checked(call.body), "createTime": old["createTime"], "updateTime": timestamp()}
    return _store(call, _metric_key(call, call.params["metric"]), new)


@routes.on("DELETE", _METRICS + "/{metric}")
def delete_metric(call: Call) -> Json:
    """Remove a metric."""
    call.cloud.store.delete(Kind.METRIC, _metric_key(call, str(_metric(call)["name"])))
    return {}
