"""Google's rules for names, labels, environment and paths, checked before anything is created."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from infra.ownership import LABEL
from infra.problems import Problem

if TYPE_CHECKING:
    from infra.settings import Settings

_DASHED = r"[a-z]([a-z0-9-]*[a-z0-9])?"
_RESERVED_ENV = ("CHECKPOINT_DIR", "REQUIRED_GPU", "TASK_TIMEOUT_S", "MAX_RETRIES", "PORT", "K_SERVICE")
_ENV_VALUE_BYTES = 32_768


def check_names(settings: Settings) -> list[Problem]:
    """Everything whose spelling Google prescribes, as it will be sent (the suffix included)."""
    return [*_resource_names(settings), *_labels(settings), *_environment(settings), *_workload_and_members(settings)]


def _resource_names(s: Settings) -> list[Problem]:
    if s.name_suffix and not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", s.name_suffix):
        what = f"{s.name_suffix!r} cannot end a name"
        return [
            Problem("gpujob:nameSuffix", what, "up to 12 of a-z, 0-9 and -, no - at an end", "gpujob:nameSuffix: b")
        ]
    problems: list[Problem] = []
    rules = (
        ("jobName", s.job, _DASHED, 1, 49, "gpu-resilient-job"),
        ("accountName", s.account, _DASHED, 6, 30, "gpu-job-sa"),
        ("buildAccountName", s.build_account, _DASHED, 6, 30, "gpu-job-build"),
        ("repositoryName", s.repository, _DASHED, 1, 63, "gpujob"),
        ("bucketName", s.bucket, r"(?!goog)[a-z0-9]([a-z0-9_-]*[a-z0-9])?", 3, 63, '""'),
        ("sourceBucketName", s.source_bucket, r"(?!goog)[a-z0-9]([a-z0-9_-]*[a-z0-9])?", 3, 63, '""'),
    )
    for key, name, pattern, shortest, longest, example in rules:
        if re.fullmatch(pattern, name) and shortest <= len(name) <= longest and not _forbidden(key, name):
            continue
        suffix = f", with nameSuffix {s.name_suffix}" if s.name_suffix else ""
        marks = "a-z, 0-9, - and _" if "ucket" in key else "a-z, 0-9 and -, starting with a letter"
        allowed = f"{shortest} to {longest} characters: {marks}; no - at the end"
        problems.append(
            Problem(f"gpujob:{key}", f"{name!r} ({len(name)} characters{suffix})", allowed, f"gpujob:{key}: {example}")
        )
    return problems


def _forbidden(key: str, name: str) -> bool:
    return "ucket" in key and "google" in name


def _labels(s: Settings) -> list[Problem]:
    problems: list[Problem] = []
    allowed = (
        "keys of 1 to 63, values of 0 to 63 characters: a-z, 0-9, _ and -; keys start with a letter, not with goog"
    )
    paste = "gpujob:labels:\n  team: research"
    for name, value in s.labels.items():
        if not re.fullmatch(r"(?!goog)[a-z][a-z0-9_-]{0,62}", name):
            problems.append(Problem("gpujob:labels", f"{name!r} cannot be the key of a label", allowed, paste))
        elif name == LABEL:
            what = f"{LABEL} says which stack made a thing, and is set by the program"
            problems.append(Problem("gpujob:labels", what, "any other key", paste))
        elif not re.fullmatch(r"[a-z0-9_-]{0,63}", value):
            problems.append(Problem("gpujob:labels", f"{name}: {value!r} cannot be a label", allowed, paste))
    if len(s.all_labels) > 63:
        problems.append(Problem("gpujob:labels", f"{len(s.all_labels)} labels", "up to 62 of your own", paste))
    return problems


def _environment(s: Settings) -> list[Problem]:
    problems: list[Problem] = []
    paste = 'gpujob:env:\n  LOG_LEVEL: "info"'
    names = [*(("env", *pair) for pair in s.env.items()), *(("secrets", name, "") for name in s.secrets)]
    for key, name, value in names:
        where = f"gpujob:{key}"
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            problems.append(Problem(where, f"{name!r}", "letters, digits and _, no digit first", paste))
        elif name.startswith("CLOUD_RUN_") or name in _RESERVED_ENV:
            what = f"{name} is set by Cloud Run or by the job itself"
            problems.append(Problem(where, what, "any other name", paste))
        elif len(value.encode()) > _ENV_VALUE_BYTES:
            what = f"the value of {name} has {len(value.encode())} bytes"
            problems.append(Problem(where, what, f"up to {_ENV_VALUE_BYTES} bytes", paste))
    return problems


def _workload_and_members(s: Settings) -> list[Problem]:
    problems: list[Problem] = []
    if not re.fullmatch(r"[a-z][a-z0-9_]*", s.workload):
        allowed = "the name of a module: a-z, 0-9 and _"
        problems.append(Problem("gpujob:workload", f"{s.workload!r}", allowed, "gpujob:workload: language_model"))
    for member in s.image_readers:
        if not re.fullmatch(r"(serviceAccount|group|user|principal|principalSet|domain):\S+", member):
            allowed = "serviceAccount:..., group:..., user:...; allUsers would make the image public and is refused"
            paste = (
                "gpujob:imageReaders:\n  - serviceAccount:service-NUMBER@serverless-robot-prod.iam.gserviceaccount.com"
            )
            problems.append(Problem("gpujob:imageReaders", f"{member!r} is not an IAM member", allowed, paste))
    return problems
