"""Where checkpoints outlive the task: a private bucket, and the job's account as the only one granted on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from infra.buckets import bucket_grant, private_bucket
from infra.settings import Settings


@dataclass(frozen=True)
class CheckpointsArgs:
    """The bucket, who writes to it, and whether it may go."""

    project: str
    region: str
    bucket: str
    labels: Mapping[str, str]
    soft_delete_seconds: int
    hierarchical_namespace: bool
    kms_key: str
    disposable: bool
    member: pulumi.Input[str]
    role: str

    @classmethod
    def of(cls, settings: Settings, *, member: pulumi.Input[str]) -> CheckpointsArgs:
        """As this stack wants it, for the job's account."""
        return cls(
            project=settings.project,
            region=settings.region,
            bucket=settings.bucket,
            labels=settings.own_labels,
            soft_delete_seconds=settings.soft_delete_seconds,
            hierarchical_namespace=settings.hierarchical_namespace,
            kms_key=settings.kms_key,
            disposable=settings.disposable,
            member=member,
            role=settings.bucket_role,
        )


class Checkpoints(pulumi.ComponentResource):
    """The bucket. Deliberately without lifecycle rules: the worker alone knows which checkpoints are spent."""

    bucket: pulumi.Output[str]
    url: pulumi.Output[str]
    """gs://NAME"""
    grants: list[pulumi.Resource]
    """A job started before these could not read its own checkpoints."""

    def __init__(self, name: str, args: CheckpointsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:infra:Checkpoints", name, None, opts)
        bucket = private_bucket(
            f"{name}-bucket",
            project=args.project,
            bucket=args.bucket,
            region=args.region,
            labels=args.labels,
            soft_delete_seconds=args.soft_delete_seconds,
            hierarchical_namespace=args.hierarchical_namespace,
            kms_key=args.kms_key,
            disposable=args.disposable,
            parent=self,
        )
        self.bucket = bucket.name
        self.url = bucket.url
        self.grants = [bucket_grant(f"{name}-job", bucket, role=args.role, member=args.member, parent=self)]
        self.register_outputs({"bucket": self.bucket, "url": self.url})
