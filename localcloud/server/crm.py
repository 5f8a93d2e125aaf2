"""Resource Manager v1: any project named exists and is active; its policy is kept."""

from localcloud.jsontypes import Json, items
from localcloud.resources import project_number
from localcloud.server import policies
from localcloud.server.errors import invalid
from localcloud.server.http import Call, Routes

routes = Routes("/crm/v1", "/v1")
_PROJECT = "/projects/{project}"


@routes.on("GET", _PROJECT)
def get_project(call: Call) -> Json:
    """The project."""
    project = call.params["project"]
    if not 4 <= len(project) <= 30:
        raise invalid(f"{project!r} is no project id: 4 to 30 characters.")
    return {
        "projectNumber": project_number(project),
        "projectId": project,
        "lifecycleState": "ACTIVE",
        "name": project,
        "createTime": "2020-01-01T00:00:00.000000Z",
    }


def _key(call: Call) -> str:
    return f"cloudresourcemanager.googleapis.com/projects/{call.params['project']}"


policies.serve(routes, _PROJECT, _key, read_by="POST")


@routes.on("POST", _PROJECT + ":testIamPermissions")
def test_permissions(call: Call) -> Json:
    """Everything is permitted: there is one user, who owns this machine."""
    return {"permissions": items(call.body.get("permissions"))}
