"""What the job's account may read besides its own checkpoints: secrets and read-only buckets, each by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import secretmanager, storage

from infra.mounts import ReadOnlyBucket
from infra.secret_versions import SecretVersion
from infra.settings import Settings


@dataclass(frozen=True)
class AccessArgs:
    """Who reads what. Neither secrets nor buckets are this stack's: they exist before it and stay after it."""

    member: pulumi.Input[str]
    secrets: frozenset[tuple[str, str]]
    """(project, secret). The grant is on the secret: a version cannot be granted by itself."""
    buckets: Mapping[str, str]
    """Volume -> bucket."""

    @classmethod
    def of(cls, settings: Settings, *, member: pulumi.Input[str]) -> AccessArgs:
        """As this stack wants it, for the job's account."""
        return cls(
            member=member,
            secrets=_secrets(settings.secret_versions),
            buckets=_buckets(settings.read_only_buckets),
        )


class Access(pulumi.ComponentResource):
    """Read grants, one a resource. Nothing on a project: the account sees no other secret and no other bucket."""

    grants: list[pulumi.Resource]
    """A task started before these would fail to start, or find an empty folder."""

    def __init__(self, name: str, args: AccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:infra:Access", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, delete_before_replace=True)
        secrets = [
            secretmanager.SecretIamMember(
                f"{name}-secret-{project}-{secret}",
                project=project,
                secret_id=secret,
                role="roles/secretmanager.secretAccessor",
                member=args.member,
                opts=child,
            )
            for project, secret in sorted(args.secrets)
        ]
        buckets = [
            storage.BucketIAMMember(
                f"{name}-bucket-{volume}",
                bucket=bucket,
                role="roles/storage.objectViewer",
                member=args.member,
                opts=child,
            )
            for volume, bucket in args.buckets.items()
        ]
        self.grants = [*secrets, *buckets]
        self.register_outputs({})


def grant_access(
    settings: Settings, *, member: pulumi.Input[str], after: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The grants that this stack needs, for what must not start before them."""
    args = AccessArgs.of(settings, member=member)
    return Access("access", args, after).grants if args.secrets or args.buckets else []


def _secrets(versions: Mapping[str, SecretVersion]) -> frozenset[tuple[str, str]]:
    return frozenset((version.project, version.secret) for version in versions.values())


def _buckets(mounts: Mapping[str, ReadOnlyBucket]) -> dict[str, str]:
    """One grant a bucket, though several of its folders may be mounted."""
    first: dict[str, str] = {}
    for volume, entry in sorted(mounts.items()):
        first.setdefault(entry.bucket, volume)
    return {volume: bucket for bucket, volume in first.items()}
