"""Long-running operations: stored with what they answer, or with the execution or build whose end they wait for."""

from localcloud.jsontypes import Json, obj
from localcloud.kinds import Kind
from localcloud.resources import unique_id
from localcloud.server.errors import not_found
from localcloud.store import Store


def typed(message_type: str, message: Json) -> Json:
    """A message inside an Any."""
    return {"@type": f"type.googleapis.com/{message_type}", **message}


def done(store: Store, parent: str, message_type: str, response: Json) -> Json:
    """An operation that has succeeded already, kept so that it can be asked for."""
    message = typed(message_type, response)
    operation: Json = {
        "name": f"{parent}/operations/{unique_id()}",
        "metadata": message,
        "done": True,
        "response": message,
    }
    store.put(Kind.OPERATION, operation["name"], operation)
    return operation


def failed(store: Store, parent: str, message_type: str, subject: Json, message: str) -> Json:
    """An operation that has ended with FAILED_PRECONDITION: what it was about stays as it was."""
    operation: Json = {
        "name": f"{parent}/operations/{unique_id()}",
        "metadata": typed(message_type, subject),
        "done": True,
        "error": {"code": 9, "message": message},
    }
    store.put(Kind.OPERATION, operation["name"], operation)
    return operation


def follow(store: Store, name: str, kind: Kind, target: str) -> None:
    """Record an operation that ends when the resource `target` of `kind` does."""
    store.put(Kind.OPERATION, name, {"name": name, "follows": {"kind": kind, "name": target}})


def get(store: Store, name: str) -> Json:
    """The operation as it stands now.

    Raises:
        ApiError: 404 when there is none of that name.
    """
    operation = store.get(Kind.OPERATION, name)
    if operation is None:
        raise not_found(name)
    follows = obj(operation.get("follows"))
    if not follows:
        return operation
    kind = Kind(follows["kind"])
    target = store.get(kind, str(follows["name"]))
    if target is None:
        raise not_found(name)
    return _FOLLOWED[kind](name, target)


def execution_operation(name: str, execution: Json) -> Json:
    """The operation of `:run`.

    A failed execution answers an error; a cancelled one its execution, as clients expect both.
    """
    message = typed("google.cloud.run.v2.Execution", execution)
    operation: Json = {"name": name, "metadata": message, "done": "completionTime" in execution}
    if operation["done"]:
        completed = next((each for each in execution["conditions"] if each["type"] == "Completed"), {})
        if int(execution.get("failedCount", 0)) > 0:
            operation["error"] = {"code": 10, "message": completed.get("message", "The execution failed.")}
        else:
            operation["response"] = message
    return operation


def build_operation(name: str, build: Json) -> Json:
    """The operation of a build."""
    operation: Json = {
        "name": name,
        "metadata": {
            "@type": "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata",
            "build": build,
        },
        "done": "finishTime" in build,
    }
    if operation["done"]:
        if build["status"] == "SUCCESS":
            operation["response"] = typed("google.devtools.cloudbuild.v1.Build", build)
        else:
            operation["error"] = {"code": 2, "message": build.get("statusDetail", f"Build {build['status']}.")}
    return operation


_FOLLOWED = {Kind.EXECUTION: execution_operation, Kind.BUILD: build_operation}
