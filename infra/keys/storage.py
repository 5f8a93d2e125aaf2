"""Keys of what a task sees as folders: the checkpoint bucket, buckets that it only reads, a disk of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.keys.declaring import GUARDED, key
from infra.mounts import ReadOnlyBucket


@dataclass(frozen=True, kw_only=True)
class StorageKeys:
    """What is mounted, where, and how the checkpoint bucket is kept."""

    mount_path: str = key(
        "/checkpoints", "Where the bucket is mounted in the container.", allowed="an absolute path, not a system folder"
    )
    bucket_role: str = key(
        "roles/storage.objectUser",
        "What the job's account may do on the checkpoint bucket.",
        allowed="roles/storage.objectUser, or the tutorial's roles/storage.objectAdmin",
        effect="replaces the grant",
    )
    soft_delete_seconds: int = key(
        0,
        "How long the bucket keeps deleted objects. Each pruned checkpoint is billed that much longer.",
        allowed="0, or 604800 (7 days) to 7776000 (90 days)",
        effect="updates the bucket",
    )
    hierarchical_namespace: bool = key(
        False,
        "Whether the bucket has real folders: faster listings and more requests a second at the start. Nothing here "
        "needs it.",
        allowed="true, false",
        effect=GUARDED,
    )
    read_only_buckets: Mapping[str, ReadOnlyBucket] = key(
        {},
        "Further buckets to mount, for data and base models: name -> bucket, mountPath and, if only a part is wanted, "
        "folder. The job's account may read them and nothing else.",
        allowed="names of a-z, 0-9 and -; buckets that exist; paths that do not lie within one another",
        effect="updates the job; adds or removes the grants on the buckets",
    )
    ephemeral_disk: str = key(
        "",
        "Size of a disk that each attempt gets empty and loses at its end, for caches and unpacked data; without it "
        "everything but the mounts is memory. A preview feature.",
        allowed="empty, or whole gibibytes like 10Gi; above 10Gi your project may need quota",
    )
    ephemeral_disk_path: str = key(
        "/scratch", "Where that disk is mounted.", allowed="an absolute path, not a system folder"
    )
