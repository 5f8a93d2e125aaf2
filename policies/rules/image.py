"""Which image runs: one that no push can replace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .rule import Level, Resource, Rule, Severity, read
from .tokens import JOB

_CONTAINERS = "template.template.containers"
_BY_DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


def _by_digest(job: Resource) -> Iterator[str]:
    for index, container in enumerate(job.items(_CONTAINERS)):
        image = read(container, "image")
        if not _BY_DIGEST.fullmatch(str(image)):
            yield (
                f"{_CONTAINERS}[{index}].image is {image!r}: a tag can be moved, and then a retry resumes the "
                "training with other code than it began with."
            )


IMAGE_RULES = (
    Rule(
        name="job-image-by-digest",
        types=JOB,
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        description="Images are deployed by digest (NAME@sha256:...), never by tag.",
        remediation="Deploy the digest that the build reports, or pin it with gpujob:image.",
        check=_by_digest,
    ),
)
