"""Operations of every product, at the paths where its clients ask for them."""

from localcloud.jsontypes import Json
from localcloud.server import operations
from localcloud.server.http import Call, Routes

routes = Routes("/run/v2", "/v2", "/artifactregistry/v1", "/cloudbuild/v1", "/serviceusage/v1", "/v1")


@routes.on("GET", "/projects/{project}/locations/{location}/operations/{operation}")
def get_operation(call: Call) -> Json:
    """An operation below a location."""
    return operations.get(
        call.cloud.store, "projects/{project}/locations/{location}/operations/{operation}".format(**call.params)
    )


@routes.on("POST", "/projects/{project}/locations/{location}/operations/{operation}:wait")
def wait_operation(call: Call) -> Json:
    """Best effort, as documented: answers at once."""
    return get_operation(call)


@routes.on("GET", "/operations/{operation:path}")
def get_global_operation(call: Call) -> Json:
    """An operation without a location (builds, services)."""
    return operations.get(call.cloud.store, f"operations/{call.params['operation']}")
