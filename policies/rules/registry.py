"""The registry's clean-up: it must not remove the image that the job runs."""

from __future__ import annotations

from collections.abc import Iterator

from .rule import Level, Resource, Rule, Severity, read
from .tokens import REPOSITORY


def _keeps_running_digest(repository: Resource) -> Iterator[str]:
    policies = list(repository.items("cleanupPolicies"))
    deleting = [policy for policy in policies if read(policy, "action") == "DELETE"]
    for policy in deleting:
        if not read(policy, "condition.olderThan"):
            name = read(policy, "id")
            yield f"cleanupPolicies: {name} deletes without older_than, so also what was pushed a minute ago."
    keeping = [policy for policy in policies if read(policy, "action") == "KEEP"]
    if deleting and not any(_keeps(policy) for policy in keeping):
        yield (
            "cleanupPolicies delete and no KEEP rule stands beside them: the digest that the job runs goes with the "
            "others, and its next retry finds no image."
        )


def _keeps(policy: object) -> bool:
    """A KEEP rule with neither a count nor a condition is refused or keeps nothing."""
    return bool(read(policy, "mostRecentVersions.keepCount") or read(policy, "condition"))


REGISTRY_RULES = (
    Rule(
        name="registry-keeps-running-image",
        types=REPOSITORY,
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        description="Where a registry deletes old images, a KEEP rule holds the newest and DELETE has an age.",
        remediation="Add a KEEP rule with most_recent_versions and give every DELETE rule older_than.",
        check=_keeps_running_digest,
    ),
)
