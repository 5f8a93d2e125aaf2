"""Where Pulumi keeps its state: a bucket that forgets nothing at once, and the keys that seal secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import kms, storage

from bootstrap.roles import own_state

KEPT_VERSIONS = 50
KEPT_DAYS = 90
ROTATION = "7776000s"
"""90 days. Older versions stay enabled: what they sealed is opened with them."""


@dataclass(frozen=True)
class Writer:
    """Who writes the state of a stack, and reads that of all."""

    member: pulumi.Input[str]
    stack: str
    """One that ends with * stands for all that begin so."""


@dataclass(frozen=True)
class StateArgs:
    """Who reads it and who writes it; both by short name. The name of a writer is that of its environment and key."""

    project: str
    region: str
    bucket: str
    labels: Mapping[str, str]
    readers: Mapping[str, pulumi.Input[str]]
    writers: Mapping[str, Writer]
    openers: Mapping[str, tuple[str, ...]]
    """Environment -> who, besides its writer, opens what its key has sealed."""


class State(pulumi.ComponentResource):
    """Bucket and keys, all protected: the engine refuses to delete them, and with them every stack.

    All accounts read all state; what is sealed in it is opened by those whom `openers` names, since each environment
    has a key of its own.
    """

    backend_url: pulumi.Output[str]
    """For `pulumi login`."""
    secrets_providers: dict[str, pulumi.Output[str]]
    """Environment -> for `pulumi stack init --secrets-provider`."""

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
        keys = {
            environment: kms.CryptoKey(
                f"{name}-key-{environment}",
                key_ring=ring.id,
                name=f"pulumi-{environment}",
                purpose="ENCRYPT_DECRYPT",
                rotation_period=ROTATION,
                labels=dict(args.labels),
                opts=kept,
            )
            for environment in args.writers
        }
        # Lists are of the bucket, which a condition on names of objects would refuse: who writes also reads.
        members = {**args.readers, **{short: writer.member for short, writer in args.writers.items()}}
        for short, member in members.items():
            storage.BucketIAMMember(
                f"{name}-bucket-reader-{short}",
                bucket=bucket.name,
                role="roles/storage.objectViewer",
                member=member,
                opts=child,
            )
        for short, writer in args.writers.items():
            own = own_state(args.bucket, writer.stack)
            storage.BucketIAMMember(
                f"{name}-bucket-writer-{short}",
                bucket=bucket.name,
                role="roles/storage.objectUser",
                member=writer.member,
                condition=storage.BucketIAMMemberConditionArgs(title=own.title, expression=own.expression),
                opts=child,
            )
        for environment, key in keys.items():
            roles = dict.fromkeys(args.openers.get(environment, ()), "roles/cloudkms.cryptoKeyDecrypter")
            roles[environment] = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
            for short, role in roles.items():
                kms.CryptoKeyIAMMember(
                    f"{name}-key-{environment}-{short}",
                    crypto_key_id=key.id,
                    role=role,
                    member=members[short],
                    opts=child,
                )
        self.backend_url = bucket.url
        self.secrets_providers = {
            environment: pulumi.Output.concat("gcpkms://", key.id) for environment, key in keys.items()
        }
        self.register_outputs({"backendUrl": self.backend_url})


def _spent() -> storage.BucketLifecycleRuleArgs:
    """A version goes when there are many newer ones and it has been superseded for long: both must hold."""
    return storage.BucketLifecycleRuleArgs(
        action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
        condition=storage.BucketLifecycleRuleConditionArgs(
            num_newer_versions=KEPT_VERSIONS, days_since_noncurrent_time=KEPT_DAYS
        ),
    )
