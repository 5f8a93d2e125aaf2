"""What a job's secrets stand for: the version that a reference names, and why it cannot be read."""

import base64
import re

from localcloud.jsontypes import Json, items, obj, objects
from localcloud.kinds import Kind
from localcloud.resources import project_number
from localcloud.store import Store

_FULL = re.compile(r"projects/([^/]+)/secrets/([^/]+)")
_READERS = frozenset({"roles/secretmanager.secretAccessor", "roles/secretmanager.admin", "roles/owner"})
ENABLED = "ENABLED"


def secret_named(store: Store, project: str, secret: str) -> str | None:
    """Full name of a secret by its short name in `project`, or by its full one, with the project's id or number."""
    match = _FULL.fullmatch(secret)
    wanted_project, short = (match[1], match[2]) if match else (project, secret)
    for name in store.names(Kind.SECRET):
        own, own_short = name.split("/")[1], name.rpartition("/")[2]
        if own_short == short and wanted_project in (own, project_number(own)):
            return name
    return None


def version_named(store: Store, secret: str, version: str) -> Json | None:
    """A version of a secret by its full name; `latest` is the newest that is enabled."""
    if version != "latest":
        return store.get(Kind.SECRET_VERSION, f"{secret}/versions/{version}")
    enabled = [one for one in store.list(Kind.SECRET_VERSION, f"{secret}/versions/") if one["state"] == ENABLED]
    return max(enabled, key=lambda one: int(str(one["name"]).rpartition("/")[2]), default=None)


def unreadable(store: Store, project: str, template: Json) -> list[str]:
    """What Cloud Run says of each secret that a task of this template could not get. Its words, for services."""
    account = str(template.get("serviceAccount", ""))
    found: list[str] = []
    for number, variable in enumerate(_variables(template)):
        reference = obj(obj(variable.get("valueSource")).get("secretKeyRef"))
        if not reference:
            continue
        given, version = str(reference.get("secret", "")), str(reference.get("version") or "latest")
        secret = secret_named(store, project, given)
        full = given if "/" in given else f"projects/{project_number(project)}/secrets/{given}"
        name = f"{full}/versions/{version}"
        where = f"spec.template.spec.containers[0].env[{number}].value_from.secret_key_ref.name"
        document = version_named(store, secret, version) if secret else None
        if secret is None or document is None:
            found.append(f"{where}: Secret {name} was not found")
        elif document["state"] != ENABLED:
            found.append(f"{where}: Secret {name} is in {document['state']} state")
        elif not _may_read(store, secret, account):
            found.append(
                f"{where}: Permission denied on secret: {name} for Revision service account {account}. The service "
                "account used must be granted the 'Secret Manager Secret Accessor' role "
                "(roles/secretmanager.secretAccessor) at the secret, project or higher level."
            )
    return found


def contents(store: Store, project: str, template: Json) -> dict[str, str | None]:
    """Variable -> what it gets from its secret; None where the version is not there, is disabled, or is no text."""
    return {
        str(variable["name"]): _content(store, project, obj(obj(variable["valueSource"]).get("secretKeyRef")))
        for variable in _variables(template)
        if "valueSource" in variable
    }


def _content(store: Store, project: str, reference: Json) -> str | None:
    secret = secret_named(store, project, str(reference.get("secret", "")))
    document = version_named(store, secret, str(reference.get("version") or "latest")) if secret else None
    if document is None or document["state"] != ENABLED:
        return None
    try:
        return base64.b64decode(str(document["_data"])).decode()
    except UnicodeDecodeError:
        return None


def _variables(template: Json) -> list[Json]:
    containers = objects(template.get("containers"))
    return objects(containers[0].get("env")) if containers else []


def _may_read(store: Store, secret: str, account: str) -> bool:
    """Whether the account is granted it, on the secret or its project. An account of Google's own is not judged."""
    if not account:
        return True
    project = secret.split("/")[1]
    policies = [f"secretmanager.googleapis.com/{secret}", f"cloudresourcemanager.googleapis.com/projects/{project}"]
    return any(
        binding["role"] in _READERS and f"serviceAccount:{account}" in items(binding.get("members"))
        for policy in policies
        for binding in objects((store.get(Kind.POLICY, policy) or {}).get("bindings"))
    )
