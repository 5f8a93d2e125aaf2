"""What every bucket of this program has in common: private, uniform access, in the job's region, one grant a member."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
from pulumi_gcp import storage

from infra.ownership import LABEL_STAYS


def private_bucket(
    name: str,
    *,
    project: str,
    bucket: str,
    region: str,
    labels: Mapping[str, str],
    soft_delete_seconds: int,
    disposable: bool,
    parent: pulumi.Resource,
    kms_key: str = "",
    hierarchical_namespace: bool = False,
    delete_after_days: int | None = None,
) -> storage.Bucket:
    """A bucket that nobody outside can read. Not disposable: the engine refuses to delete, and so to replace, it.

    No versioning: objects are written once, under new names. `delete_after_days` None: none is deleted by age.
    """
    return storage.Bucket(
        name,
        project=project,
        name=bucket,
        # In upper case, as the API answers it: otherwise each refresh would see a difference.
        location=region.upper(),
        force_destroy=disposable,
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        # The API's default keeps, and bills, every deleted object for 7 days.
        soft_delete_policy=storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=soft_delete_seconds),
        # Left out where it is off: declared false it would replace buckets that were made before it could be said.
        hierarchical_namespace=_folders() if hierarchical_namespace else None,
        encryption=storage.BucketEncryptionArgs(default_kms_key_name=kms_key) if kms_key else None,
        labels=dict(labels),
        lifecycle_rules=None if delete_after_days is None else [_delete_after(delete_after_days)],
        # The name is fixed: the new bucket cannot exist beside the old one.
        opts=pulumi.ResourceOptions(
            parent=parent, delete_before_replace=True, protect=not disposable, ignore_changes=[LABEL_STAYS]
        ),
    )


def bucket_grant(
    name: str, bucket: storage.Bucket, *, role: str, member: pulumi.Input[str], parent: pulumi.Resource
) -> storage.BucketIAMMember:
    """One role for one member on one bucket, beside what others granted (a Binding would take theirs away)."""
    return storage.BucketIAMMember(
        name,
        bucket=bucket.name,
        role=role,
        member=member,
        opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
    )


def _folders() -> storage.BucketHierarchicalNamespaceArgs:
    return storage.BucketHierarchicalNamespaceArgs(enabled=True)


def _delete_after(days: int) -> storage.BucketLifecycleRuleArgs:
    return storage.BucketLifecycleRuleArgs(
        action=storage.BucketLifecycleRuleActionArgs(type="Delete"),
        condition=storage.BucketLifecycleRuleConditionArgs(age=days),
    )
