"""What an execution may take: how long, how often again, how many tasks at a time, and memory for what it writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .gpu import has_gpu
from .rule import Level, Option, Resource, Rule, Severity, known, read
from .tokens import JOB

_TASK = "template.template"
_CONTAINERS = f"{_TASK}.containers"
_BINARY = {"": 1.0, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "k": 1e3, "M": 1e6, "G": 1e9}


def _timeout(job: Resource) -> Iterator[str]:
    timeout = job.get(f"{_TASK}.timeout")
    if not timeout:
        yield f"{_TASK}.timeout is not set, so every attempt is killed after ten minutes."
        return
    match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(timeout))
    if not match:
        yield f"{_TASK}.timeout is {timeout!r}, which is not a number of seconds like '43200s'."
        return
    hours, ceiling = float(match[1]) / 3600, float(job.options["gpuHours"])
    if hours > ceiling and has_gpu(job):
        yield (
            f"{_TASK}.timeout is {hours:g} h, above the {ceiling:g} h allowed for a GPU task: an attempt that hangs "
            "is billed for all of it, and the API may refuse it."
        )


def _retries(job: Resource) -> Iterator[str]:
    retries = job.get(f"{_TASK}.maxRetries")
    if retries is not None and float(retries) < 1 and has_gpu(job):
        yield f"{_TASK}.maxRetries is {float(retries):g}, so the first maintenance of a host ends the training."


def _parallelism(job: Resource) -> Iterator[str]:
    if has_gpu(job) and not job.get("template.parallelism"):
        yield (
            "template.parallelism is not set, which means as many tasks as possible: the GPU quota is checked against "
            "that, and so many GPUs are billed."
        )


def _memory(job: Resource) -> Iterator[str]:
    writable = {
        str(read(volume, "name"))
        for volume in job.items(f"{_TASK}.volumes")
        if read(volume, "gcs") and not read(volume, "gcs.readOnly")
    }
    floor = float(job.options["gibibytes"])
    for index, container in enumerate(job.items(_CONTAINERS)):
        mounted = {str(read(mount, "name")) for mount in known(read(container, "volumeMounts"))} & writable
        if not mounted:
            continue
        where, memory = f"{_CONTAINERS}[{index}].resources.limits.memory", read(container, "resources.limits.memory")
        names = ", ".join(sorted(mounted))
        if not memory:
            yield f"{where} is not set, so 512Mi must hold the program and what the bucket mount {names} buffers."
        elif _gibibytes(str(memory)) < floor:
            yield (
                f"{where} is {memory}: less than the {floor:g}Gi asked for beside the writable bucket mount {names}, "
                "which buffers up to 96 MiB of each open file, and whole files that are not written in one stream."
            )


def _gibibytes(quantity: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(\w*)", quantity)
    return float(match[1]) * _BINARY[match[2]] / 2**30 if match and match[2] in _BINARY else 0.0


LIMIT_RULES = (
    Rule(
        name="job-timeout-is-set",
        types=JOB,
        severity=Severity.MEDIUM,
        level=Level.MANDATORY,
        description="The timeout of an attempt is set, and with a GPU it is at most the ceiling.",
        remediation="Set timeout, '43200s' at most for a GPU: a longer training resumes in the next attempt.",
        check=_timeout,
        options=(
            Option(
                "gpuHours",
                12,
                "Longest attempt of a task with a GPU, in hours.",
                {"type": "number", "exclusiveMinimum": 0, "maximum": 168},
            ),
        ),
    ),
    Rule(
        name="job-retries",
        types=JOB,
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        description="A GPU task is retried at least once: GPU hosts are maintained, and tasks are not moved off them.",
        remediation="Set max_retries to 1 or more, 3 if in doubt.",
        check=_retries,
    ),
    Rule(
        name="job-parallelism-is-set",
        types=JOB,
        severity=Severity.MEDIUM,
        level=Level.MANDATORY,
        description="How many GPU tasks run at a time is said, not left to the platform.",
        remediation="Set template.parallelism, 1 for a single training.",
        check=_parallelism,
    ),
    Rule(
        name="job-memory-for-mount",
        types=JOB,
        severity=Severity.MEDIUM,
        level=Level.MANDATORY,
        description="A container that writes to a mounted bucket has memory for the mount's buffers beside its own.",
        remediation="Raise the memory limit, or mount the bucket read-only if it is only read.",
        check=_memory,
        options=(
            Option(
                "gibibytes", 4, "Least memory of such a container, in GiB.", {"type": "number", "exclusiveMinimum": 0}
            ),
        ),
    ),
)
