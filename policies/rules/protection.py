"""What must outlive a mistake: in production neither a destroy nor a replacement removes bucket, registry or job."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from .rule import Level, Option, Resource, Rule, Severity, read
from .tokens import BUCKET, JOB, REPOSITORY, one_of


def _protected(resource: Resource) -> Iterator[str]:
    if not any(fnmatchcase(resource.stack, str(pattern)) for pattern in resource.options["stacks"]):
        return
    if resource.type == BUCKET and _expires(resource):
        return
    if not resource.protect:
        yield "The resource option protect is not set, so the engine would delete or replace it."
    # The provider's own default is true.
    if resource.type == JOB and resource.get("deletionProtection") is False:
        yield "deletionProtection is false, so whoever may delete jobs can delete this one."
    if resource.type == BUCKET and resource.get("forceDestroy") is True:
        yield "forceDestroy is true, so deleting the bucket would delete every checkpoint in it."


_NARROWER = (
    "createdBefore",
    "customTimeBefore",
    "daysSinceCustomTime",
    "daysSinceNoncurrentTime",
    "matchesPrefixes",
    "matchesStorageClasses",
    "matchesSuffixes",
    "noncurrentTimeBefore",
    "numNewerVersions",
    "withState",
)
"""Conditions beside the age by which a rule spares some objects."""


def _expires(bucket: Resource) -> bool:
    """Whether the bucket deletes all its objects by their age anyway, as that of the build's sources does."""
    return any(
        read(rule, "action.type") == "Delete"
        and read(rule, "condition.age")
        and all(read(rule, f"condition.{name}") in (None, "", "ANY", 0, []) for name in _NARROWER)
        for rule in bucket.items("lifecycleRules")
    )


PROTECTION_RULES = (
    Rule(
        name="production-is-protected",
        types=one_of(JOB, BUCKET, REPOSITORY),
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        description=(
            "In production stacks, job, registry and each bucket whose objects do not expire cannot just be deleted."
        ),
        remediation=(
            "Set gpujob:disposable to false. To tear a stack down on purpose, disable this policy for that one update."
        ),
        check=_protected,
        options=(
            Option(
                "stacks",
                ["prod", "prod-*", "production"],
                "Names of production stacks; * stands for anything.",
                {"type": "array", "items": {"type": "string"}},
            ),
        ),
    ),
)
