"""Labels: without them nobody can tell whose GPU hours these were."""

from __future__ import annotations

from collections.abc import Iterator

from .rule import Level, Option, Resource, Rule, Severity
from .tokens import BUCKET, JOB, REPOSITORY, one_of


def _labelled(resource: Resource) -> Iterator[str]:
    places = ("labels", "template.labels") if resource.type == JOB else ("labels",)
    for place in places:
        labels = resource.get(place) or {}
        missing = [name for name in resource.options["labels"] if not labels.get(name)]
        if missing:
            yield f"{place} lacks {', '.join(missing)}."


LABEL_RULES = (
    Rule(
        name="required-labels",
        types=one_of(JOB, BUCKET, REPOSITORY),
        severity=Severity.LOW,
        level=Level.MANDATORY,
        description="Job, executions, buckets and registry carry the labels by which costs and logs are told apart.",
        remediation="Set them by gpujob:labels; a job's executions have only what template.labels holds.",
        check=_labelled,
        options=(
            Option("labels", ["app"], "Labels that must have a value.", {"type": "array", "items": {"type": "string"}}),
        ),
    ),
)
