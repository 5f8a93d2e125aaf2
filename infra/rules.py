"""From raw configuration to Settings: types, allowed values, the rules between keys. Pure: no engine, no network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from infra.accelerators import CATALOGUE, GIB_PER_VCPU
from infra.access_rules import check_access
from infra.alert_rules import alert_warnings, check_alerts
from infra.cost_rules import check_exposure, check_numbers
from infra.mount_rules import check_mounts
from infra.names import check_names
from infra.problems import Problem, SettingsError, problem_with
from infra.settings import GPU_TIMEOUT_GA_S, NAMESPACE, Settings, declared_keys, default_of
from infra.values import typed_value

TIMEOUT_CEILING_S = 168 * 3600
"""What Cloud Run allows any task."""
GPU_TIMEOUT_PREVIEW_S = 12 * 3600
"""The longest attempt with a GPU that Google's pages mention (preview)."""
REGISTRIES = r"([a-z0-9-]+-)?docker\.pkg\.dev|([a-z0-9-]+\.)?gcr\.io|docker\.io"
"""The hosts that Cloud Run's own refusal names: "host is one of [region.]gcr.io, [region-]docker.pkg.dev or docker.io".
It would come when the job is created, after everything else."""
DISK_QUOTA_GIB = 10
"""Ephemeral disk of one instance without further quota."""
LIKELY = 0.95
"""Below this share of executions that finish within their retries there is a warning."""


def parse(
    values: Mapping[str, str],
    *,
    project: str,
    region: str,
    endpoints: Mapping[str, str] | None = None,
    stack: str = "",
) -> Settings:
    """Settings from raw strings by camelCase key (lists and objects as JSON, as Pulumi hands them over).

    Raises SettingsError with every problem found, not only the first.
    """
    problems = [*_unknown(values), *_place(project, region)]
    typed: dict[str, Any] = {}
    for name, key_field in declared_keys().items():
        raw = values.get(name)
        try:
            typed[key_field.name] = default_of(key_field) if raw is None else typed_value(key_field, raw)
        except ValueError as error:
            typed[key_field.name] = default_of(key_field)
            problems.append(problem_with(name, f"{raw!r} is {error}"))
    settings = Settings(project=project, region=region, endpoints=dict(endpoints or {}), stack=stack, **typed)
    problems += [*_resources(settings), *_time(settings), *_job(settings), *check_numbers(settings)]
    problems += [*check_mounts(settings), *check_access(settings), *check_alerts(settings)]
    # Names that derive from a project that cannot be would only repeat its problem.
    no_project = any(problem.key == "gcp:project" for problem in problems)
    problems += check_names(replace(settings, project="stand-in") if no_project else settings)
    problems = problems or list(check_exposure(settings))
    if problems:
        raise SettingsError(problems)
    return replace(settings, warnings=tuple(_warnings(settings)))


def _unknown(values: Mapping[str, str]) -> list[Problem]:
    known = declared_keys()
    problems: list[Problem] = []
    for name in sorted(set(values) - set(known)):
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        what = "no such key" + (f"; did you mean {NAMESPACE}:{near[0]}?" if near else "")
        remove = f"pulumi config rm {NAMESPACE}:{name}"
        problems.append(Problem(f"{NAMESPACE}:{name}", what, "the keys that docs/configuration.md lists", remove))
    return problems


def _place(project: str, region: str) -> list[Problem]:
    problems: list[Problem] = []
    if not re.fullmatch(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", project):
        what = f"{project!r} is not a project id" if project else "not set"
        allowed = "the id of a project that has billing: 6 to 30 of a-z, 0-9 and -"
        problems.append(Problem("gcp:project", what, allowed, "pulumi config set gcp:project YOUR-PROJECT-ID"))
    if not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", region):
        what = f"{region!r} is not a region" if region else "not set"
        everywhere = sorted({place for gpu in CATALOGUE.values() for place in gpu.all_regions})
        problems.append(Problem("gcp:region", what, ", ".join(everywhere), "pulumi config set gcp:region europe-west4"))
    return problems


def _resources(settings: Settings) -> list[Problem]:
    gpu = CATALOGUE.get(settings.gpu_type)
    if gpu is None:
        near = get_close_matches(settings.gpu_type, CATALOGUE, n=1, cutoff=0.3) or ["nvidia-l4"]
        what = f"{settings.gpu_type!r} is not a GPU that Cloud Run jobs offer"
        return [problem_with("gpuType", what, f"{NAMESPACE}:gpuType: {near[0]}")]
    problems: list[Problem] = []
    if settings.region and settings.region not in gpu.all_regions:
        elsewhere = [other.name for other in CATALOGUE.values() if settings.region in other.all_regions]
        also = f"; in {settings.region} there is {', '.join(elsewhere)}" if elsewhere else ""
        allowed = f"{', '.join(gpu.all_regions)} for {gpu.name}{also}"
        what = f"{settings.region} does not offer {gpu.name}"
        near = [place for place in gpu.regions if place.split("-")[0] == settings.region.split("-")[0]] or gpu.regions
        problems.append(Problem("gcp:region", what, allowed, f"pulumi config set gcp:region {near[-1]}"))
    cpus = ", ".join(map(str, gpu.cpus))
    if settings.cpu not in map(str, gpu.cpus):
        what = f"{settings.cpu!r} vCPU do not go with {gpu.name}"
        problems.append(
            problem_with("cpu", what, f'{NAMESPACE}:cpu: "{gpu.cpus[0]}"', f"{cpus} for {gpu.name}, as text")
        )
    match = re.fullmatch(r"([0-9]{1,4})Gi", settings.memory)
    low, high = gpu.memory_floor_gib, gpu.memory_ceiling_gib
    allowed = f"whole gibibytes, {low}Gi to {high}Gi for {gpu.name}"
    if not match or not low <= int(match[1]) <= high or match[1] != str(int(match[1])):
        what = f"{settings.memory!r} does not go with {gpu.name}"
        problems.append(problem_with("memory", what, f"{NAMESPACE}:memory: {low}Gi", allowed))
    elif not problems and int(match[1]) > int(settings.cpu) * GIB_PER_VCPU:
        enough = next(n for n in gpu.cpus if n * GIB_PER_VCPU >= int(match[1]))
        what = f"{settings.memory} is more than {settings.cpu} vCPU may have ({GIB_PER_VCPU}Gi each)"
        problems.append(problem_with("memory", what, f'{NAMESPACE}:cpu: "{enough}"', allowed))
    return problems


def _time(settings: Settings) -> list[Problem]:
    raw = settings.timeout
    if not re.fullmatch(r"[1-9][0-9]*s", raw):
        units = {"s": 1, "": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
        match = re.fullmatch(r"0*([0-9]+)\s*([a-z]*)", raw.strip())
        seconds = int(match[1]) * units[match[2]] if match and match[2] in units else 0
        proposal = f"{seconds}s" if 0 < seconds <= TIMEOUT_CEILING_S else "43200s"
        return [problem_with("timeout", f"{raw!r} is not a number of seconds", f"{NAMESPACE}:timeout: {proposal}")]
    if settings.timeout_s > TIMEOUT_CEILING_S:
        hours = settings.timeout_s / 3600
        return [problem_with("timeout", f"{raw} ({hours:g} h) is beyond the 168 h that Cloud Run allows any task")]
    return []


def _job(settings: Settings) -> list[Problem]:
    problems: list[Problem] = []
    retries = settings.max_retries
    if retries == 0:
        what = "0 would let the first maintenance of the host end the job: an interruption is retried or it is the end"
        problems.append(problem_with("maxRetries", what))
    elif not 1 <= retries <= 10:
        problems.append(problem_with("maxRetries", f"{retries} is out of range"))
    if not 1 <= settings.task_count <= 10_000:
        problems.append(problem_with("taskCount", f"{settings.task_count} is out of range"))
    elif not 1 <= settings.parallelism <= settings.task_count:
        what = f"{settings.parallelism} tasks at a time, of {settings.task_count}"
        problems.append(
            problem_with("parallelism", what, f"{NAMESPACE}:parallelism: {settings.task_count}", "1 to taskCount")
        )
    problems += _image(settings.image)
    if settings.soft_delete_seconds != 0 and not 604_800 <= settings.soft_delete_seconds <= 7_776_000:
        problems.append(problem_with("softDeleteSeconds", f"{settings.soft_delete_seconds} is out of range"))
    if settings.bucket_role not in ("roles/storage.objectUser", "roles/storage.objectAdmin"):
        problems.append(problem_with("bucketRole", f"{settings.bucket_role!r} is not a role that the job needs"))
    return problems


def _image(image: str) -> list[Problem]:
    """An image that stays what it is, in a registry from which Cloud Run pulls."""
    if not image:
        return []
    if not re.fullmatch(r"[a-z0-9.:-]+(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}", image):
        what = f"{image!r} does not name one image for ever: a tag can be moved, a digest cannot"
        name = image.partition("@")[0].partition(":")[0]
        paste = f"{NAMESPACE}:image: {name}@sha256:<64 hex digits>"
        return [problem_with("image", what, paste)]
    host, _, path = image.partition("/")
    if not re.fullmatch(REGISTRIES, host):
        what = f"{host!r} is not a registry from which Cloud Run pulls"
        paste = f"{NAMESPACE}:image: REGION-docker.pkg.dev/PROJECT/REMOTE-REPOSITORY/{path}"
        return [problem_with("image", what, paste)]
    return []


def _warnings(settings: Settings) -> list[str]:
    gpu, seconds = settings.accelerator, settings.timeout_s
    found = list(alert_warnings(settings))
    if seconds > GPU_TIMEOUT_PREVIEW_S:
        found.append(
            f"{NAMESPACE}:timeout: {seconds}s IS ABOVE THE 12 h THAT GOOGLE'S PAGES NAME FOR A GPU TASK. "
            f"The API may refuse the job, and one attempt that hangs is billed for {seconds / 3600:g} h. "
            "43200s is the longest documented."
        )
    elif seconds > GPU_TIMEOUT_GA_S:
        found.append(
            f"{NAMESPACE}:timeout: {seconds}s is above 3600s: a GPU task that long may need preview access in your "
            "project; the job is declared with launch stage BETA. If the API refuses it, set 3600s: a retry resumes."
        )
    if settings.region in gpu.invited_regions:
        found.append(
            f"gcp:region: {settings.region} offers {gpu.name} to invited projects only; open to all: "
            f"{', '.join(gpu.regions)}."
        )
    if settings.exposure.usd is None:
        found.append(
            f"{NAMESPACE}:gpuUsdPerHour: no list price of {gpu.name} is known here, so the exposure is in hours only."
        )
    if settings.egress == "ALL_TRAFFIC":
        found.append(
            f"{NAMESPACE}:egress: ALL_TRAFFIC sends the bucket mount through the VPC too: the subnetwork needs Private "
            "Google Access, and whatever else the worker downloads needs Cloud NAT."
        )
    if settings.ephemeral_disk and int(settings.ephemeral_disk.removesuffix("Gi")) > DISK_QUOTA_GIB:
        found.append(
            f"{NAMESPACE}:ephemeralDisk: {settings.ephemeral_disk} is above the {DISK_QUOTA_GIB}Gi an instance that "
            "projects start with; without more quota the API refuses the job."
        )
    expected = settings.expectation
    if expected is not None and expected.finished < LIKELY:
        found.append(
            f"{NAMESPACE}:maxRetries: {settings.max_retries} retries are spent before {settings.training_hours} h of "
            f"training are done in {1 - expected.finished:.0%} of executions (at {settings.interruptions_per_day} "
            "interruptions a day). The next execution resumes where it ended; or raise maxRetries."
        )
    return found
