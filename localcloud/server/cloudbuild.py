"""Cloud Build v1: builds; what they do is in localcloud.build."""

import base64

from localcloud.jsontypes import Json, items, obj, objects
from localcloud.kinds import Kind
from localcloud.resources import project_number, timestamp, unique_id
from localcloud.server import operations
from localcloud.server.errors import failed_precondition, invalid, not_found
from localcloud.server.http import Call, Routes, page

routes = Routes("/cloudbuild/v1", "/v1")
_GLOBAL = "/projects/{project}/builds"
_REGIONAL = "/projects/{project}/locations/{location}/builds"
_LOGGING = {
    0: "LOGGING_UNSPECIFIED",
    1: "LEGACY",
    2: "GCS_ONLY",
    3: "STACKDRIVER_ONLY",
    4: "NONE",
    5: "CLOUD_LOGGING_ONLY",
}
_OWN_ACCOUNT = (
    "if 'build.service_account' is specified, the build must either (a) specify 'build.logs_bucket', "
    "(b) use the REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or "
    "(c) use either CLOUD_LOGGING_ONLY / NONE logging options"
)


def _check(build: Json) -> None:
    options = build.setdefault("options", {})
    if isinstance(options.get("logging"), int):
        options["logging"] = _LOGGING.get(options["logging"], "LOGGING_UNSPECIFIED")
    if not items(build.get("steps")):
        raise invalid("build must have at least one step")
    if build.get("serviceAccount") and not build.get("logsBucket"):
        own_bucket = options.get("defaultLogsBucketBehavior") in ("REGIONAL_USER_OWNED_BUCKET", 1)
        if options.get("logging") not in ("CLOUD_LOGGING_ONLY", "NONE") and not own_bucket:
            raise invalid(_OWN_ACCOUNT)
    for number, step in enumerate(objects(build["steps"])):
        if not step.get("name"):
            raise invalid(f"build step {number} has no name: it must be the image of a builder")


@routes.on("POST", _GLOBAL)
@routes.on("POST", _REGIONAL)
def create_build(call: Call) -> Json:
    """Begin a build; the operation ends when it does."""
    build = {key: value for key, value in call.body.items() if key not in ("id", "status", "results")}
    _check(build)
    account = str(build.get("serviceAccount", "")).rsplit("/", 1)[-1]
    if account.endswith(".iam.gserviceaccount.com") and call.cloud.store.get(Kind.ACCOUNT, account) is None:
        raise failed_precondition(f"service account {account} does not exist; the build was not started")
    project, location, number = call.params["project"], call.params.get("location", "global"), unique_id()
    build.update(
        id=number,
        name=f"projects/{project_number(project)}/locations/{location}/builds/{number}",
        projectId=project,
        status="QUEUED",
        createTime=timestamp(),
        logUrl=f"{call.cloud.url}/_localcloud/logs?build={number}",
    )
    build.setdefault("timeout", "600s")
    build.setdefault("queueTtl", "3600s")
    call.cloud.store.put(Kind.BUILD, number, build)
    encoded = base64.b64encode(number.encode()).decode()
    regional = f"projects/{project}/locations/{location}/operations/{encoded}"
    operation = regional if "location" in call.params else f"operations/build/{project}/{encoded}"
    operations.follow(call.cloud.store, operation, Kind.BUILD, number)
    call.cloud.builder.start(build)
    return operations.get(call.cloud.store, operation)


@routes.on("GET", _GLOBAL)
@routes.on("GET", _REGIONAL)
def list_builds(call: Call) -> Json:
    """Builds of a project, newest first."""
    if call.query.get("filter"):
        raise invalid(f"filter: {call.query['filter']!r} is not supported by the local cloud; list without one.")
    found = [each for each in call.cloud.store.list(Kind.BUILD) if each["projectId"] == call.params["project"]]
    return page(call, found[::-1], "builds")


@routes.on("GET", _GLOBAL + "/{build}")
@routes.on("GET", _REGIONAL + "/{build}")
def get_build(call: Call) -> Json:
    """One build."""
    build = call.cloud.store.get(Kind.BUILD, call.params["build"])
    if build is None or obj(build)["projectId"] != call.params["project"]:
        raise not_found(f"build {call.params['build']}")
    return build
