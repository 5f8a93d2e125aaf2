"""Rules of what is mounted: paths that the API takes, volumes that do not collide, a disk of a size. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.problems import Problem, problem_with
from infra.settings import Settings

CHECKPOINT_VOLUME = "checkpoint-volume"
DISK_VOLUME = "ephemeral-disk"

_SYSTEM_FOLDERS = ("/app", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")
_PATH = "an absolute path without a / at the end, no system folder and not the program's /app"
_BUCKET = r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"


def check_mounts(settings: Settings) -> list[Problem]:
    """Every mount by itself, then all of them together."""
    problems = [*_own_mounts(settings), *_read_only_buckets(settings)]
    return problems or list(_overlaps(settings))


def _own_mounts(s: Settings) -> Iterator[Problem]:
    if not _mountable(s.mount_path):
        yield problem_with("mountPath", f"{s.mount_path!r}", allowed=_PATH)
    if s.ephemeral_disk and not re.fullmatch(r"[1-9][0-9]{0,4}Gi", s.ephemeral_disk):
        yield problem_with("ephemeralDisk", f"{s.ephemeral_disk!r} is not a size", "gpujob:ephemeralDisk: 10Gi")
    if not _mountable(s.ephemeral_disk_path):
        yield problem_with("ephemeralDiskPath", f"{s.ephemeral_disk_path!r}", allowed=_PATH)


def _read_only_buckets(s: Settings) -> Iterator[Problem]:
    for name, entry in s.read_only_buckets.items():
        example = (
            f"gpujob:readOnlyBuckets:\n  base-models:\n    bucket: {entry.bucket or 'BUCKET'}\n    mountPath: /models"
        )
        if not re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name) or name in (CHECKPOINT_VOLUME, DISK_VOLUME):
            allowed = f"up to 63 of a-z, 0-9 and -; not {CHECKPOINT_VOLUME} or {DISK_VOLUME}"
            yield problem_with("readOnlyBuckets", f"{name!r} cannot name a volume", example, allowed)
        elif not re.fullmatch(_BUCKET, entry.bucket):
            allowed = "the name of a bucket that exists, without gs://; a folder of it goes under folder"
            yield problem_with("readOnlyBuckets", f"{name}: {entry.bucket!r} is not a bucket's name", example, allowed)
        elif entry.bucket == s.bucket:
            what = f"{name}: {entry.bucket} is this stack's checkpoint bucket, which is mounted at {s.mount_path}"
            yield problem_with("readOnlyBuckets", what, "pulumi config rm gpujob:readOnlyBuckets", "another bucket")
        elif not _mountable(entry.mount_path):
            yield problem_with("readOnlyBuckets", f"{name}: {entry.mount_path!r}", example, _PATH)
        elif entry.folder and not re.fullmatch(r"[^/,\s][^,\s]*[^/,\s]|[^/,\s]", entry.folder):
            allowed = "a path inside the bucket without / at its ends, without spaces and commas"
            yield problem_with("readOnlyBuckets", f"{name}: folder {entry.folder!r}", example, allowed)


def _overlaps(s: Settings) -> Iterator[Problem]:
    paths = [("mountPath", s.mount_path)]
    paths += [("readOnlyBuckets", entry.mount_path) for entry in s.read_only_buckets.values()]
    paths += [("ephemeralDiskPath", s.ephemeral_disk_path)] if s.ephemeral_disk else []
    for number, (key, path) in enumerate(paths):
        for _, earlier in paths[:number]:
            if f"{path}/".startswith(f"{earlier}/") or f"{earlier}/".startswith(f"{path}/"):
                what = f"{path} and {earlier} lie within one another, and only one of them can be seen there"
                yield problem_with(
                    key, what, f"gpujob:{key}: ...", "paths that are apart, like /data beside /checkpoints"
                )


def _mountable(path: str) -> bool:
    system = any(f"{path}/".startswith(f"{folder}/") for folder in _SYSTEM_FOLDERS)
    return not system and bool(re.fullmatch(r"(/[A-Za-z0-9._-]+)+", path)) and not {"..", "."} & {*path.split("/")}
