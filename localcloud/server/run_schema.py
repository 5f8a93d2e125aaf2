"""Which fields a job has and of what kind: a misspelt one is refused as by the live API, not stored and forgotten.

A table rather than Google's generated messages: importing those takes longer than this server's start. A test holds
it against them.
"""

from typing import Any, cast

from localcloud.jsontypes import obj
from localcloud.server.errors import invalid

STRING, INTEGER, BOOLEAN, DURATION, ENUM, MAP, ANY = "string", "integer", "boolean", "duration", "enum", "map", "any"

ENV = {"name": STRING, "value": STRING, "valueSource": ANY}
CONTAINER: dict[str, Any] = {
    "name": STRING,
    "image": STRING,
    "sourceCode": ANY,
    "command": [STRING],
    "args": [STRING],
    "env": [ENV],
    "resources": {"limits": MAP, "cpuIdle": BOOLEAN, "startupCpuBoost": BOOLEAN},
    "ports": ANY,
    "volumeMounts": [{"name": STRING, "mountPath": STRING, "subPath": STRING}],
    "workingDir": STRING,
    "livenessProbe": ANY,
    "startupProbe": ANY,
    "readinessProbe": ANY,
    "dependsOn": [STRING],
    "baseImageUri": STRING,
    "buildInfo": ANY,
}
VOLUME: dict[str, Any] = {
    "name": STRING,
    "secret": ANY,
    "cloudSqlInstance": ANY,
    "emptyDir": {"medium": ENUM, "sizeLimit": STRING},
    "nfs": ANY,
    "gcs": {"bucket": STRING, "readOnly": BOOLEAN, "mountOptions": [STRING]},
}
TASK: dict[str, Any] = {
    "containers": [CONTAINER],
    "volumes": [VOLUME],
    "maxRetries": INTEGER,
    "timeout": DURATION,
    "serviceAccount": STRING,
    "executionEnvironment": ENUM,
    "encryptionKey": STRING,
    "vpcAccess": ANY,
    "nodeSelector": {"accelerator": STRING},
    "gpuZonalRedundancyDisabled": BOOLEAN,
}
EXECUTION: dict[str, Any] = {
    "labels": MAP,
    "annotations": MAP,
    "parallelism": INTEGER,
    "taskCount": INTEGER,
    "template": TASK,
}
OUTPUT_ONLY = (
    "uid",
    "generation",
    "createTime",
    "updateTime",
    "deleteTime",
    "expireTime",
    "creator",
    "lastModifier",
    "observedGeneration",
    "terminalCondition",
    "conditions",
    "executionCount",
    "latestCreatedExecution",
    "reconciling",
    "satisfiesPzs",
)
"""Accepted and ignored on input, as a client sends back what it has read."""
JOB: dict[str, Any] = {
    "name": STRING,
    "labels": MAP,
    "annotations": MAP,
    "client": STRING,
    "clientVersion": STRING,
    "launchStage": ENUM,
    "binaryAuthorization": ANY,
    "template": EXECUTION,
    "startExecutionToken": STRING,
    "runExecutionToken": STRING,
    "etag": STRING,
    **dict.fromkeys(OUTPUT_ONLY, ANY),
}
OVERRIDES: dict[str, Any] = {
    "containerOverrides": [{"name": STRING, "args": [STRING], "env": [ENV], "clearArgs": BOOLEAN}],
    "taskCount": INTEGER,
    "timeout": DURATION,
}
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    STRING: ((str,), "TYPE_STRING"),
    INTEGER: ((int, str), "TYPE_INT32"),
    BOOLEAN: ((bool,), "TYPE_BOOL"),
    DURATION: ((str,), "type.googleapis.com/google.protobuf.Duration"),
    ENUM: ((str, int), "TYPE_ENUM"),
    MAP: ((dict,), "TYPE_MESSAGE"),
}


def check(value: object, schema: Any, path: str) -> None:
    """Refuse what does not fit the schema.

    Raises:
        ApiError: 400 that names the field by its path from `path`.
    """
    if isinstance(schema, dict):
        fields = cast("dict[str, Any]", schema)
        if not isinstance(value, dict):
            raise invalid(f"Invalid value at '{path}' (TYPE_MESSAGE), {value!r}")
        for key, each in obj(cast("object", value)).items():
            if key not in fields:
                raise invalid(f"Invalid JSON payload received. Unknown name \"{key}\" at '{path}': Cannot find field.")
            check(each, fields[key], f"{path}.{key}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            raise invalid(f"Invalid value at '{path}' (repeated field), {value!r}")
        for number, each in enumerate(cast("list[object]", value)):
            check(each, cast("list[Any]", schema)[0], f"{path}[{number}]")
    elif schema != ANY:
        types, name = _KINDS[schema]
        wrong_boolean = isinstance(value, bool) and bool not in types
        wrong_number = schema == INTEGER and isinstance(value, str) and not value.lstrip("-").isdigit()
        if not isinstance(value, types) or wrong_boolean or wrong_number:
            raise invalid(f"Invalid value at '{path}' ({name}), {value!r}")
