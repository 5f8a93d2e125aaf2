"""Whose an object is that a pending creation would have made: nothing is imported that does not say so itself.

Two stacks that share names want the same objects. A killed engine's state does not tell whether its creation took
effect or met the other stack's object; the object's own mark does (infra/ownership.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.ownership import owner_of
from ops.kind_lists import all_of
from ops.leftover_kinds import KINDS, Kind

JOB = "gcp:cloudrunv2/job:Job"
_NOUNS = {
    "gcp:serviceaccount/account:Account": "account",
    "gcp:storage/bucket:Bucket": "bucket",
    "gcp:artifactregistry/repository:Repository": "repository",
    JOB: "job",
    "gcp:logging/metric:Metric": "metric",
}


def existing(type_: str, inputs: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The object in the project that bears the name which `inputs` give, whosever it is; None if there is none.

    Raises:
        OpsError: it could not be looked for.
    """
    kind = _kind(type_)
    name = _name(type_, inputs)
    there = all_of(kind, str(inputs["project"]), str(inputs.get("location", "")), config, safe="Nothing was imported.")
    return next((one for one in there if kind.name_of(one) == name), None)


def refusal(type_: str, inputs: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Why the object must not be imported: whose it is, by its own words; empty where it is the pending creation's."""
    ours, theirs = owner_of(inputs), owner_of(document)
    if ours and ours == theirs:
        return ""
    shown = f"{_kind(type_).noun} {_name(type_, inputs)}"
    if theirs and ours:
        return f"{shown} says that stack {theirs} made it, not {ours}"
    if theirs:
        return f"{shown} says that stack {theirs} made it, and the pending creation does not say for which stack it was"
    return f"{shown} does not say which stack made it"


def _kind(type_: str) -> Kind:
    (kind,) = [one for one in KINDS if one.noun == _NOUNS[type_]]
    return kind


def _name(type_: str, inputs: Mapping[str, Any]) -> str:
    if _NOUNS[type_] == "account":
        return f"{inputs['accountId']}@{inputs['project']}.iam.gserviceaccount.com"
    return str(inputs["repositoryId"] if _NOUNS[type_] == "repository" else inputs["name"])
