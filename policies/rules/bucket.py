"""Buckets: nobody outside can read them, IAM alone decides, and how long deleted objects are kept is a decision."""

from __future__ import annotations

from collections.abc import Iterator

from .rule import Level, Resource, Rule, Severity
from .tokens import BUCKET

_KEPT = "softDeletePolicy.retentionDurationSeconds"


def _private(bucket: Resource) -> Iterator[str]:
    prevention = bucket.get("publicAccessPrevention")
    if prevention != "enforced":
        yield f"publicAccessPrevention is {prevention or 'not set'}: one grant to allUsers would publish the bucket."


def _uniform(bucket: Resource) -> Iterator[str]:
    if bucket.get("uniformBucketLevelAccess") is not True:
        yield "uniformBucketLevelAccess is not true: lists on single objects may let in whom IAM keeps out."


def _soft_delete(bucket: Resource) -> Iterator[str]:
    if bucket.get(_KEPT) is None:
        yield f"{_KEPT} is not set: every pruned checkpoint is kept, and billed, for another seven days."


BUCKET_RULES = (
    Rule(
        name="bucket-is-private",
        types=BUCKET,
        severity=Severity.CRITICAL,
        level=Level.MANDATORY,
        description="Public access to a bucket is prevented, whatever is granted later.",
        remediation="Set public_access_prevention='enforced'.",
        check=_private,
        covers=("Checkov CKV_GCP_114",),
    ),
    Rule(
        name="bucket-uniform-access",
        types=BUCKET,
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        description="Access to a bucket is by IAM alone.",
        remediation="Set uniform_bucket_level_access=True.",
        check=_uniform,
        covers=("CIS 5.2", "Checkov CKV_GCP_29", "Trivy AVD-GCP-0002"),
    ),
    Rule(
        name="bucket-soft-delete-is-explicit",
        types=BUCKET,
        severity=Severity.LOW,
        level=Level.MANDATORY,
        description="How long a bucket keeps deleted objects is set, since the default is billed.",
        remediation="Set soft_delete_policy; 0 seconds for checkpoints, which are pruned all the time.",
        check=_soft_delete,
    ),
)
