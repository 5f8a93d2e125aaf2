"""How a job asks for its GPU: without zonal redundancy, which Cloud Run jobs cannot have."""

from __future__ import annotations

from collections.abc import Iterator

from .rule import Level, Resource, Rule, Severity, read
from .tokens import JOB

_OFF = "template.template.gpuZonalRedundancyDisabled"


def has_gpu(job: Resource) -> bool:
    """Whether the tasks of a job have a GPU, by the accelerator or by a container's limit."""
    if job.get("template.template.nodeSelector.accelerator"):
        return True
    containers = job.items("template.template.containers")
    return any("nvidia.com/gpu" in (read(container, "resources.limits") or {}) for container in containers)


def _no_zonal_redundancy(job: Resource) -> Iterator[str]:
    if has_gpu(job) and job.get(_OFF) is not True:
        yield f"{_OFF} is not true: Cloud Run refuses GPU jobs with zonal redundancy, for lack of capacity."


GPU_RULES = (
    Rule(
        name="gpu-without-zonal-redundancy",
        types=JOB,
        severity=Severity.MEDIUM,
        level=Level.MANDATORY,
        description="Zonal redundancy is switched off where a job has a GPU.",
        remediation="Set gpu_zonal_redundancy_disabled=True.",
        check=_no_zonal_redundancy,
    ),
)
