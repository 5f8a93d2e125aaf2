"""What the live Cloud Run API refuses in any job, in its words where they are known."""

import re

from localcloud.executor.memory import quantity_bytes
from localcloud.jsontypes import Json, obj, objects
from localcloud.server.errors import invalid, invalid_field
from localcloud.server.run_gpu_rules import GPU_LIMIT, check_gpu, check_no_gpu, check_quota
from localcloud.settings import Settings

RESERVED_ENVIRONMENT = frozenset(
    {
        "CLOUD_RUN_JOB",
        "CLOUD_RUN_EXECUTION",
        "CLOUD_RUN_TASK_INDEX",
        "CLOUD_RUN_TASK_ATTEMPT",
        "CLOUD_RUN_TASK_COUNT",
    }
)
ENVIRONMENT_VALUE_BYTES = 32768
TASK_TIMEOUT_CEILING_S = 168 * 3600
_JOB_ID = re.compile(r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")
_LABEL_KEY = re.compile(r"^[a-z][a-z0-9_-]{0,62}$")
_LABEL_VALUE = re.compile(r"^[a-z0-9_-]{0,63}$")
_ENVIRONMENT_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]*$")
_RESERVED_PATHS = ("/dev", "/proc", "/sys")
_RESERVED_NAMESPACES = ("run.googleapis.com", "cloud.googleapis.com", "serving.knative.dev", "autoscaling.knative.dev")
_LIMITS = "template.template.containers[0].resources.limits"
_CPU_MEMORY_CEILING_GIB = {1: 4, 2: 8, 4: 16, 6: 24, 8: 32}


def check_job_id(job_id: str) -> None:
    """Refuse a name that Cloud Run would not take."""
    if not _JOB_ID.match(job_id):
        raise invalid_field(
            "job_id",
            f"{job_id!r} is no job name: only lowercase letters, digits and '-', beginning with a letter, "
            "not ending with '-', less than 64 characters.",
        )


def check_job(job: Json, location: str, settings: Settings) -> None:
    """Refuse a job (defaults filled in) that the live API would refuse.

    Raises:
        ApiError: 400 that names the field.
    """
    _check_labels("job.labels", job)
    execution = obj(job.get("template"))
    _check_labels("job.template.labels", execution)
    _within("template.task_count", int(execution["taskCount"]), 0, 10000)
    _within("template.parallelism", int(execution.get("parallelism", 0)), 0, 10000)
    task = obj(execution.get("template"))
    _within("template.template.max_retries", int(task["maxRetries"]), 0, 10)
    containers = objects(task.get("containers"))
    if len(containers) != 1:
        raise invalid_field(
            "template.template.containers", f"the local cloud runs exactly one container, not {len(containers)}."
        )
    container = containers[0]
    if not container.get("image"):
        raise invalid_field("template.template.containers[0].image", "must not be empty.")
    if task["executionEnvironment"] != "EXECUTION_ENVIRONMENT_GEN2":
        raise invalid_field("template.template.execution_environment", "jobs run in EXECUTION_ENVIRONMENT_GEN2 only.")
    _check_environment(container)
    _check_volumes(task, container)
    limits = obj(obj(container.get("resources")).get("limits"))
    cpu, memory_bytes = _cpu(limits), _memory_bytes(limits)
    if GPU_LIMIT in limits:
        _check_timeout(task, settings.gpu_timeout_ceiling_s, " when using GPU")
        check_gpu(task, limits, cpu=cpu, memory_bytes=memory_bytes, location=location)
        check_quota(execution, settings.gpu_quota, location)
    else:
        _check_timeout(task, TASK_TIMEOUT_CEILING_S)
        check_no_gpu(task)
        _check_plain(cpu, memory_bytes)


def seconds(field: str, text: str) -> float:
    """Seconds of a protobuf duration such as `43200s`."""
    match = re.fullmatch(r"(\d+(?:\.\d{1,9})?)s", text)
    if match is None:
        raise invalid(f"Invalid value at '{field}' (type.googleapis.com/google.protobuf.Duration), \"{text}\"")
    return float(match[1])


def _within(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise invalid_field(field, f"must be in the range [{low}, {high}], not {value}.")


def _check_labels(field: str, holder: Json) -> None:
    labels = obj(holder.get("labels"))
    if len(labels) > 64:
        raise invalid_field(field, f"at most 64 labels, not {len(labels)}.")
    for key, value in labels.items():
        if key.split("/")[0].endswith(_RESERVED_NAMESPACES):
            raise invalid_field(field, f"label {key!r} lies in a namespace that belongs to the system.")
        if not _LABEL_KEY.match(key) or not _LABEL_VALUE.match(str(value)):
            raise invalid_field(
                field,
                f"label {key}={value}: keys begin with a lowercase letter; keys and values have lowercase letters, "
                "digits, '_' and '-', 63 characters at most.",
            )


def _check_environment(container: Json) -> None:
    field = "template.template.containers[0].env"
    names = [str(each.get("name", "")) for each in objects(container.get("env"))]
    reserved = sorted(RESERVED_ENVIRONMENT.intersection(names))
    if reserved:
        raise invalid_field(
            field,
            f"The following reserved env names were provided: {', '.join(reserved)}. "
            "These values are automatically set by the system.",
        )
    for name in names:
        if not _ENVIRONMENT_NAME.match(name):
            raise invalid_field(field, f"{name!r} is no name for an environment variable.")
    for each in objects(container.get("env")):
        size = len(str(each.get("value", "")).encode())
        if size > ENVIRONMENT_VALUE_BYTES:
            raise invalid_field(
                field, f"value of {each['name']} has {size} bytes; at most {ENVIRONMENT_VALUE_BYTES} are allowed."
            )


def _check_volumes(task: Json, container: Json) -> None:
    volumes = {str(each.get("name", "")): each for each in objects(task.get("volumes"))}
    for name, volume in volumes.items():
        if "gcs" in volume and not obj(volume["gcs"]).get("bucket"):
            raise invalid_field(f"template.template.volumes[{name}].gcs.bucket", "must not be empty.")
    seen: set[str] = set()
    for mount in objects(container.get("volumeMounts")):
        path, field = str(mount.get("mountPath", "")), "template.template.containers[0].volume_mounts"
        if mount.get("name") not in volumes:
            raise invalid_field(
                field, f"volume {mount.get('name')!r} is not declared; declared: {', '.join(volumes) or 'none'}."
            )
        if not path.startswith("/") or path.rstrip("/") == "":
            raise invalid_field(field, f"mount path {path!r} must be absolute and not the root.")
        if any(path == each or path.startswith(each + "/") for each in _RESERVED_PATHS):
            raise invalid_field(
                field, f"mount path {path!r} is not allowed: {', '.join(_RESERVED_PATHS)} belong to the system."
            )
        if path in seen:
            raise invalid_field(field, f"mount path {path!r} is used twice.")
        seen.add(path)


def _check_timeout(task: Json, ceiling_s: int, condition: str = "") -> None:
    if not 1 <= seconds("job.template.template.timeout", str(task["timeout"])) <= ceiling_s:
        raise invalid_field(
            "template.template.timeout", f"must be between 1s and {ceiling_s}s{condition}, not {task['timeout']}."
        )


def _cpu(limits: Json) -> float:
    text = str(limits["cpu"])
    match = re.fullmatch(r"(\d+)(m?)|(\d+\.\d+)", text)
    if match is None:
        raise invalid_field(_LIMITS, f"Invalid value specified for cpu: {text!r}.")
    return float(match[3] or match[1]) / (1000 if match[2] else 1)


def _memory_bytes(limits: Json) -> int:
    try:
        return quantity_bytes(str(limits["memory"]))
    except ValueError as error:
        raise invalid_field(_LIMITS, f"Invalid value specified for memory: {error}") from error


def _check_plain(cpu: float, memory_bytes: int) -> None:
    if cpu not in _CPU_MEMORY_CEILING_GIB:
        raise invalid_field(_LIMITS, f"Invalid value specified for cpu: {cpu:g} is none of 1, 2, 4, 6, 8.")
    high = _CPU_MEMORY_CEILING_GIB[int(cpu)]
    if not 512 * 2**20 <= memory_bytes <= high * 2**30:
        raise invalid_field(
            _LIMITS,
            "Invalid value specified for memory. "
            f"For {cpu:g} CPU, memory must be between 512Mi and {high}Gi inclusive.",
        )
