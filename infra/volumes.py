"""What a task sees as folders: the checkpoint bucket, buckets that it only reads, a disk of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import cloudrunv2

from infra.mount_rules import CHECKPOINT_VOLUME, DISK_VOLUME
from infra.mounts import ReadOnlyBucket
from infra.settings import Settings

WORKER_UID = 10001
"""The Dockerfile's user: it runs without root, so what is mounted must be its own."""

_OWN = (f"uid={WORKER_UID}", f"gid={WORKER_UID}", "implicit-dirs")

MOUNT_OPTIONS = (
    *_OWN,
    # A new attempt must see what the one before wrote a moment ago: nothing about the bucket may be remembered.
    "metadata-cache-ttl-secs=0",
    "metadata-cache-negative-ttl-secs=0",
    "log-severity=warning",
)
"""gcsfuse flags of the checkpoint bucket, without their dashes."""

READ_ONLY_OPTIONS = (*_OWN, "log-severity=warning")
"""Of the others: what nobody writes meanwhile may be remembered."""


@dataclass(frozen=True, kw_only=True)
class Volumes:
    """Everything that is mounted; checkpoints come first, the rest by name, so that a refresh sees no difference."""

    bucket: pulumi.Input[str]
    mount_path: str
    read_only: Mapping[str, ReadOnlyBucket]
    disk: str
    """Size like 10Gi; empty: none."""
    disk_path: str

    @classmethod
    def of(cls, settings: Settings, *, bucket: pulumi.Input[str]) -> Volumes:
        """As this stack wants them."""
        return cls(
            bucket=bucket,
            mount_path=settings.mount_path,
            read_only=settings.read_only_buckets,
            disk=settings.ephemeral_disk,
            disk_path=settings.ephemeral_disk_path,
        )

    def declared(self) -> list[cloudrunv2.JobTemplateTemplateVolumeArgs]:
        """The volumes of the task."""
        checkpoints = cloudrunv2.JobTemplateTemplateVolumeGcsArgs(
            bucket=self.bucket, read_only=False, mount_options=list(MOUNT_OPTIONS)
        )
        volumes = [cloudrunv2.JobTemplateTemplateVolumeArgs(name=CHECKPOINT_VOLUME, gcs=checkpoints)]
        volumes += [
            cloudrunv2.JobTemplateTemplateVolumeArgs(name=name, gcs=_read_only(entry))
            for name, entry in sorted(self.read_only.items())
        ]
        if self.disk:
            disk = cloudrunv2.JobTemplateTemplateVolumeEmptyDirArgs(medium="DISK", size_limit=self.disk)
            volumes.append(cloudrunv2.JobTemplateTemplateVolumeArgs(name=DISK_VOLUME, empty_dir=disk))
        return volumes

    def mounted(self) -> list[cloudrunv2.JobTemplateTemplateContainerVolumeMountArgs]:
        """Where the container sees them."""
        paths = [(CHECKPOINT_VOLUME, self.mount_path)]
        paths += [(name, entry.mount_path) for name, entry in sorted(self.read_only.items())]
        paths += [(DISK_VOLUME, self.disk_path)] if self.disk else []
        return [
            cloudrunv2.JobTemplateTemplateContainerVolumeMountArgs(name=name, mount_path=path) for name, path in paths
        ]


def _read_only(entry: ReadOnlyBucket) -> cloudrunv2.JobTemplateTemplateVolumeGcsArgs:
    folder = [f"only-dir={entry.folder}"] if entry.folder else []
    return cloudrunv2.JobTemplateTemplateVolumeGcsArgs(
        bucket=entry.bucket, read_only=True, mount_options=[*READ_ONLY_OPTIONS, *folder]
    )
