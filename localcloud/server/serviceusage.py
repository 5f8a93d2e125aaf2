"""Service Usage: which APIs a project has enabled.

Recorded and answered; the local cloud serves all of them regardless.
"""

from localcloud.jsontypes import Json, items
from localcloud.kinds import Kind
from localcloud.resources import project_number
from localcloud.server import operations
from localcloud.server.errors import invalid
from localcloud.server.http import Call, Routes, page

routes = Routes("/serviceusage/v1", "/serviceusage/v1beta1", "/v1")
_SERVICES = "/projects/{project}/services"


def _document(project: str, service: str, state: str) -> Json:
    parent = f"projects/{project_number(project)}"
    return {"name": f"{parent}/services/{service}", "parent": parent, "config": {"name": service}, "state": state}


def _enable(call: Call, services: list[str]) -> list[Json]:
    project = call.params["project"]
    for service in services:
        if not service.endswith(".googleapis.com"):
            raise invalid(f"Not found or permission denied for service(s): {service}.")
    documents = [_document(project, service, "ENABLED") for service in services]
    for service, document in zip(services, documents, strict=True):
        call.cloud.store.put(Kind.SERVICE, f"{project}/{service}", document)
    return documents


def _done(call: Call, message: str, response: Json) -> Json:
    operation = operations.done(call.cloud.store, "", f"google.api.serviceusage.v1.{message}", response)
    operation["name"] = operation["name"].lstrip("/")
    call.cloud.store.put(Kind.OPERATION, operation["name"], operation)
    return operation


@routes.on("GET", _SERVICES)
def list_services(call: Call) -> Json:
    """Services; the filter `state:ENABLED` or none."""
    wanted = call.query.get("filter", "")
    if wanted not in ("", "state:ENABLED", "state:DISABLED"):
        raise invalid(f"filter: {wanted!r} is not supported; state:ENABLED and state:DISABLED are.")
    services = call.cloud.store.list(Kind.SERVICE, f"{call.params['project']}/")
    found = [each for each in services if not wanted or each["state"] == wanted.partition(":")[2]]
    return page(call, found, "services", size=200)


@routes.on("GET", _SERVICES + "/{service}")
def get_service(call: Call) -> Json:
    """One service; disabled unless it was enabled."""
    project, service = call.params["project"], call.params["service"]
    return call.cloud.store.get(Kind.SERVICE, f"{project}/{service}") or _document(project, service, "DISABLED")


@routes.on("POST", _SERVICES + "/{service}:enable")
def enable_service(call: Call) -> Json:
    """Enable one service."""
    return _done(call, "EnableServiceResponse", {"service": _enable(call, [call.params["service"]])[0]})


@routes.on("POST", _SERVICES + ":batchEnable")
def enable_services(call: Call) -> Json:
    """Enable several services."""
    services = [str(each) for each in items(call.body.get("serviceIds"))]
    return _done(call, "BatchEnableServicesResponse", {"services": _enable(call, services)})


@routes.on("POST", _SERVICES + "/{service}:disable")
def disable_service(call: Call) -> Json:
    """Disable one service."""
    project, service = call.params["project"], call.params["service"]
    call.cloud.store.delete(Kind.SERVICE, f"{project}/{service}")
    return _done(call, "DisableServiceResponse", {"service": _document(project, service, "DISABLED")})
