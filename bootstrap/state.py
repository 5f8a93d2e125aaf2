"""Where Pulumi keeps its state: a bucket that forgets nothing at once, and the key that seals secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import kms, storage

KEPT_VERSIONS = 50
KEPT_DAYS = 90
ROTATION = "7776000s"
"""90 days. Older versions stay enabled: what they sealed is opened with them."""


@dataclass(frozen=True)
class StateArgs:
    """Who reads it and who writes it; both by short name."""

    project: str
    region: str
    bucket: str
    labels: Mapping[str, str]
    readers: Mapping[str, pulumi.Input[str]]
    writers: Mapping[str, pulumi.Input[str]]


class State(pulumi.ComponentResource):
    """Bucket and key, both protected: the engine refuses to delete them, and with them every stack."""

    backend_url: pulumi.Output[str]
    """For `pulumi login`."""
    secrets_provider: pulumi.Output[str]
    """For `pulumi stack init --secrets-provider`."""

    def __init__(self, name: str, args: StateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:bootstrap:State", name, None, opts)
        kept = pulumi.ResourceOptions(parent=self, protect=True)
        child = pulumi.ResourceOptions(parent=self, delete_before_replace=True)
        bucket = storage.Bucket(
            f"{name}-bucket",
            project=args.project,
            name=args.bucket,
            location=args.region.upper(),
            force_destroy=False,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning=storage.BucketVersioningArgs(enabled=True),
            soft_delete_policy=storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=30 * 86_400),
            lifecycle_rules=[_spent()],
            labels=dict(args.labels),
            opts=kept,
        )
        ring = kms.KeyRing(f"{name}-ring", project=args.project, location=args.region, name="gpujob", opts=kept)
        key = kms.CryptoKey(
            f"{name}-key",
            key_ring=ring.id,
            name="pulumi",
            purpose="ENCRYPT_DECRYPT",
            rotation_period=ROTATION,
            labels=dict(args.labels),
            opts=kept,
        )
        kinds = (
            ("reader", args.readers, "roles/storage.objectViewer", "roles/cloudkms.cryptoKeyDecrypter"),
            ("writer", args.writers, "roles/storage.objectUser", "roles/cloudkms.cryptoKeyEncrypterDecrypter"),
        )
        for kind, members, on_bucket, on_key in kinds:
            for short, member in members.items():
                storage.BucketIAMMember(
                    f"{name}-bucket-{kind}-{short}", bucket=bucket.name, role=on_bucket, member=member, opts=child
                )
                kms.CryptoKeyIAMMember(
                    f"{name}-key-{kind}-{short}", crypto_key_id=key.id, role=on_key, member=member, opts=child
                )
        self.backend_url = bucket.url
        self.secrets_provider = pulumi.Output.concat("gcpkms://", key.id)
        self.register_outputs({"backendUrl": self.backend_url})


def _spent() -> storage.BucketLifecycleRuleArgs:
    """A version goes when there are many newer ones and it has been superseded for long: both must hold."""
    return storage.BucketLifecycleRuleArgs(
        action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
        condition=storage.BucketLifecycleRuleConditionArgs(
            num_newer_versions=KEPT_VERSIONS, days_since_noncurrent_time=KEPT_DAYS
        ),
    )
