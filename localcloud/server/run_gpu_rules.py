"""What the live Cloud Run API refuses in a job with a GPU, in its words where they are known."""

from dataclasses import dataclass

from localcloud.jsontypes import Json, obj
from localcloud.server.errors import ApiError, invalid_field

REDUNDANCY = (
    "Currently Cloud Run jobs are unable to offer GPU enabled instances with zonal redundancy "
    "due to capacity limitations."
)
QUOTA = "spec.template.spec.parallelism: You do not have quota for using GPUs without zonal redundancy."
GPU_LIMIT = "nvidia.com/gpu"
"""The key among a container's limits."""
_LIMITS = "template.template.containers[0].resources.limits"
_ACCELERATOR = "template.template.node_selector.accelerator"


@dataclass(frozen=True)
class _Gpu:
    """What one GPU type asks of its instance, and where it is."""

    cpu: tuple[int, ...]
    cpu_in_words: str
    memory_gib: tuple[int, int]
    regions: frozenset[str]


_RTX_CPU = tuple(range(20, 32, 2))
GPUS = {
    "nvidia-l4": _Gpu(
        (4, 6, 8),
        "at least 4 (4, 6 or 8)",
        (16, 32),
        frozenset({"asia-southeast1", "asia-south1", "europe-west1", "europe-west4", "us-east4", "us-central1"}),
    ),
    "nvidia-rtx-pro-6000": _Gpu(
        _RTX_CPU,
        f"one of {', '.join(map(str, _RTX_CPU))}",
        (80, 120),
        frozenset({"asia-southeast1", "asia-south2", "europe-west4", "us-central1"}),
    ),
}


def check_no_gpu(task: Json) -> None:
    """Refuse what only a container with a GPU may say.

    Raises:
        ApiError: 400 that names the field.
    """
    if task.get("gpuZonalRedundancyDisabled"):
        raise invalid_field(
            "template.template.gpu_zonal_redundancy_disabled", "can only be set when the container has a GPU."
        )
    if obj(task.get("nodeSelector")).get("accelerator"):
        raise invalid_field(
            "template.template.node_selector", "an accelerator is selected but no GPU is in the limits."
        )


def check_gpu(task: Json, limits: Json, *, cpu: float, memory_bytes: int, location: str) -> None:
    """Refuse a task that does not fit the GPU it asks for.

    Raises:
        ApiError: 400 that names the field, or the platform's own words.
    """
    if str(limits[GPU_LIMIT]) != "1":
        raise invalid_field(_LIMITS, f"GPU can only be set to 1, not {limits[GPU_LIMIT]}.")
    accelerator = _accelerator(task)
    gpu = GPUS.get(accelerator)
    if gpu is None:
        raise invalid_field(_ACCELERATOR, f"{accelerator!r} is none of {', '.join(GPUS)}.")
    if location not in gpu.regions:
        raise invalid_field(
            _ACCELERATOR,
            f"{accelerator} is not available in {location}; it is in {', '.join(sorted(gpu.regions))}.",
        )
    if cpu not in gpu.cpu:
        raise invalid_field(_LIMITS, f"with {accelerator}, cpu must be {gpu.cpu_in_words}, not {limits['cpu']}.")
    low, high = gpu.memory_gib
    if not low * 2**30 <= memory_bytes <= high * 2**30:
        raise invalid_field(
            _LIMITS,
            f"with {accelerator}, memory must be at least {low}Gi and at most {high}Gi, not {limits['memory']}.",
        )
    if not task.get("gpuZonalRedundancyDisabled"):
        raise ApiError(400, REDUNDANCY, reason="invalid")


def check_quota(execution: Json, quota: dict[str, int], location: str) -> None:
    """Refuse more tasks side by side than the quota has GPUs: it is held against parallelism, not against use.

    Raises:
        ApiError: 400 in the platform's words.
    """
    accelerator = _accelerator(obj(execution.get("template")))
    wanted, granted = int(execution.get("parallelism", 0)), quota.get(accelerator, 0)
    if wanted == 0 or wanted > granted:
        raise ApiError(
            400,
            f"{QUOTA} (local cloud: parallelism is {wanted or 'as many as possible, because it is not set'}, "
            f"the quota for {accelerator} in {location} is {granted}.)",
            reason="invalid",
        )


def _accelerator(task: Json) -> str:
    return str(obj(task.get("nodeSelector")).get("accelerator", ""))
