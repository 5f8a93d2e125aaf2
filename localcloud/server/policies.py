"""IAM policies of every product: one read-modify-write with an etag, and the members that may stand in it."""

import re
from collections.abc import Callable
from typing import Literal, cast

from localcloud.jsontypes import Json, items, obj, objects
from localcloud.kinds import Kind
from localcloud.resources import etag
from localcloud.server.errors import ApiError, aborted, invalid
from localcloud.server.http import Call, Routes
from localcloud.store import Store

_MEMBER = re.compile(
    r"^(allUsers|allAuthenticatedUsers|(user|group|serviceAccount|domain|projectOwner|projectEditor|projectViewer|"
    r"principal|principalSet|deleted):.+)$"
)
_ROLE = re.compile(r"^(roles/[\w.]+|(projects|organizations)/[^/]+/roles/[\w.]+)$")
CONCURRENT_CHANGE = (
    "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff."
)


def serve(
    routes: Routes, path: str, resource_of: Callable[[Call], str], *, read_by: Literal["GET", "POST"] = "GET"
) -> None:
    """The two verbs of the resource at `path`, as most products spell them; `resource_of` may refuse the call."""

    def get_policy(call: Call) -> Json:
        return get(call.cloud.store, resource_of(call))

    def set_policy(call: Call) -> Json:
        return put(call.cloud.store, resource_of(call), obj(call.body.get("policy")))

    routes.on(read_by, path + ":getIamPolicy")(get_policy)
    routes.on("POST", path + ":setIamPolicy")(set_policy)


def get(store: Store, resource: str) -> Json:
    """The policy of a resource; without bindings when none was ever set."""
    policy = store.get(Kind.POLICY, resource) or {}
    answer: Json = {"version": policy.get("version", 1), "etag": _etag(resource, policy)}
    if policy.get("bindings"):
        answer["bindings"] = policy["bindings"]
    return answer


def put(store: Store, resource: str, policy: Json) -> Json:
    """Replace the policy of a resource.

    Raises:
        ApiError: 409 ABORTED when the policy carries the etag of an older one; 400 for a malformed role or member, or
            for an account of this cloud that does not exist.
    """
    stored = store.get(Kind.POLICY, resource) or {}
    sent = policy.get("etag")
    if sent and sent != _etag(resource, stored):
        raise aborted(CONCURRENT_CHANGE)
    bindings = _merged(objects(policy.get("bindings")))
    known = {member for binding in objects(stored.get("bindings")) for member in items(binding.get("members"))}
    for binding in bindings:
        for member in binding["members"]:
            if member not in known:
                _check_account(store, member)
    conditional = any("condition" in binding for binding in bindings)
    new: Json = {
        "version": 3 if conditional else 1,
        "bindings": bindings,
        "changes": int(stored.get("changes", 0)) + 1,
    }
    store.put(Kind.POLICY, resource, new)
    return get(store, resource)


def drop(store: Store, resource: str) -> None:
    """The resource is gone, and its policy with it."""
    store.delete(Kind.POLICY, resource)


def non_empty(store: Store) -> list[str]:
    """Resources that grant something to somebody."""
    return [name for name in store.names(Kind.POLICY) if (store.get(Kind.POLICY, name) or {}).get("bindings")]


def forget_account(store: Store, email: str, uid: str) -> None:
    """Grants of a deleted account stay, but to its tombstone: an account made anew under that name does not inherit
    them."""
    old, new = f"serviceAccount:{email}", f"deleted:serviceAccount:{email}?uid={uid}"
    for name in store.names(Kind.POLICY):
        policy = store.get(Kind.POLICY, name) or {}
        if any(old in binding["members"] for binding in objects(policy.get("bindings"))):
            for binding in objects(policy["bindings"]):
                binding["members"] = [new if member == old else member for member in binding["members"]]
            store.put(Kind.POLICY, name, {**policy, "changes": int(policy.get("changes", 0)) + 1})


def _etag(resource: str, policy: Json) -> str:
    return etag({"resource": resource, **policy}) if policy else "ACAB"


def _merged(bindings: list[Json]) -> list[Json]:
    merged: dict[str, Json] = {}
    for binding in bindings:
        role, members = str(binding.get("role", "")), cast("list[str]", items(binding.get("members")))
        if not _ROLE.match(role):
            raise ApiError(400, f"Role {role!r} is not supported for this resource.")
        for member in members:
            if not _MEMBER.match(member):
                raise invalid(
                    f"Invalid member {member!r} in role {role}: members read user:EMAIL, group:EMAIL, "
                    "serviceAccount:EMAIL, domain:NAME, allUsers or allAuthenticatedUsers."
                )
        key = f"{role} {etag(obj(binding.get('condition')))}"
        target = merged.setdefault(key, {"role": role, "members": []})
        if "condition" in binding:
            target["condition"] = binding["condition"]
        target["members"] += [member for member in members if member not in target["members"]]
    return [binding for binding in merged.values() if binding["members"]]


def _check_account(store: Store, member: str) -> None:
    kind, _, email = member.partition(":")
    project = email.removesuffix(".iam.gserviceaccount.com").rpartition("@")[2]
    own = kind == "serviceAccount" and email.endswith(f"@{project}.iam.gserviceaccount.com")
    if own and not email.startswith("service-") and store.get(Kind.ACCOUNT, email) is None:
        raise invalid(f"Service account {email} does not exist.")
