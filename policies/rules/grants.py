"""Who may do what: nothing for everybody, no basic roles, and no grant that wipes out what others were granted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from . import tokens
from .rule import Level, Resource, Rule, Severity

_EVERYBODY = ("allUsers", "allAuthenticatedUsers")
_BASIC = ("owner", "editor", "viewer", "admin", "writer", "reader")
_ACLS = (
    tokens.BUCKET_ACL,
    tokens.BUCKET_ACCESS,
    tokens.OBJECT_ACL,
    tokens.OBJECT_ACCESS,
    tokens.DEFAULT_OBJECT_ACL,
    tokens.DEFAULT_OBJECT_ACCESS,
)
_AUTHORITATIVE = (
    tokens.PROJECT_BINDING,
    tokens.PROJECT_POLICY,
    tokens.FOLDER_BINDING,
    tokens.FOLDER_POLICY,
    tokens.ORGANIZATION_BINDING,
    tokens.ORGANIZATION_POLICY,
)


def _no_public(grant: Resource) -> Iterator[str]:
    for where, value in (("entity", grant.get("entity")), ("predefinedAcl", grant.get("predefinedAcl"))):
        if str(value) in _EVERYBODY or str(value).startswith(("publicRead", "authenticatedRead")):
            yield f"{where} is {value}: everybody could read it."
    for entity in grant.items("roleEntities"):
        if str(entity).split(":")[-1] in _EVERYBODY:
            yield f"roleEntities holds {entity}: everybody would have that role."
    for role, member in _pairs(grant):
        if member in _EVERYBODY:
            yield f"{role} is granted to {member}, that is to the whole internet."


def _no_basic_roles(grant: Resource) -> Iterator[str]:
    granted = {str(grant.get("role"))} if grant.get("role") else {role for role, _ in _pairs(grant)}
    for role in sorted(granted):
        if role in {f"roles/{basic}" for basic in _BASIC}:
            yield f"{role} is a basic role: it spans thousands of permissions in every service."


def _members_only(grant: Resource) -> Iterator[str]:
    lost = "every other grant there" if grant.type.endswith("IAMPolicy") else "what others were granted of that role"
    name = f"{grant.type.removeprefix('gcp:').split('/')[0]}.{grant.type.split(':')[-1]}"
    yield f"{name} is authoritative: it takes away {lost}, Google's own agents included."


def _pairs(grant: Resource) -> Iterator[tuple[str, str]]:
    """(role, member) of whatever kind of grant: one member, a binding, or a policy document."""
    role = str(grant.get("role"))
    if grant.get("member"):
        yield role, str(grant.get("member"))
    for member in grant.items("members"):
        yield role, str(member)
    for binding in _bindings(grant.get("policyData")):
        for member in cast("list[Any]", binding.get("members") or []):
            yield str(binding.get("role")), str(member)


def _bindings(document: Any) -> list[dict[str, Any]]:
    try:
        policy = json.loads(document) if document else {}
    except (TypeError, ValueError):  # the provider refuses it with better words
        return []
    return cast("list[dict[str, Any]]", policy.get("bindings") or []) if isinstance(policy, dict) else []


GRANT_RULES = (
    Rule(
        name="nothing-public",
        types=tokens.one_of(tokens.ANY_GRANT, *_ACLS),
        severity=Severity.CRITICAL,
        level=Level.MANDATORY,
        description="Nothing is granted to allUsers or allAuthenticatedUsers.",
        remediation="Grant it to the account, group or person that needs it.",
        check=_no_public,
        covers=("CIS 5.1", "Checkov CKV_GCP_28", "Checkov CKV_GCP_101", "Trivy AVD-GCP-0001"),
    ),
    Rule(
        name="no-basic-roles",
        types=tokens.ANY_GRANT,
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        description="No basic roles (owner, editor, viewer and their successors admin, writer, reader).",
        remediation="Grant the predefined role for the one thing that is done, on the resource it is done to.",
        check=_no_basic_roles,
        covers=(
            "CIS 1.5",
            "Checkov CKV_GCP_115",
            "Checkov CKV_GCP_116",
            "Checkov CKV_GCP_117",
            "Trivy AVD-GCP-0007",
        ),
    ),
    Rule(
        name="no-authoritative-project-grants",
        types=tokens.one_of(*_AUTHORITATIVE),
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        description="Grants on a project, folder or organisation add a member; they never replace what is there.",
        remediation="Use IAMMember, one for each role and member.",
        check=_members_only,
    ),
)
