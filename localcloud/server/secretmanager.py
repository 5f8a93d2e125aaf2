"""Secret Manager v1: secrets, versions, and who may read them. Their content lies in the state folder as it is."""

import base64
import binascii
import re

from localcloud.jsontypes import Json, obj
from localcloud.kinds import Kind
from localcloud.resources import etag, timestamp
from localcloud.secret_versions import ENABLED, secret_named, version_named
from localcloud.server import policies
from localcloud.server.errors import already_exists, failed_precondition, invalid, not_found
from localcloud.server.http import Call, Routes, page

routes = Routes("/secretmanager/v1", "/v1")
_SECRETS = "/projects/{project}/secrets"
_SECRET = _SECRETS + "/{secret}"
_VERSIONS = _SECRET + "/versions"
_VERSION = _VERSIONS + "/{version}"
_STATES = {"enable": ENABLED, "disable": "DISABLED", "destroy": "DESTROYED"}


def _secret(call: Call) -> str:
    found = secret_named(call.cloud.store, call.params["project"], call.params["secret"])
    if found is None:
        raise not_found("Secret [projects/{project}/secrets/{secret}]".format(**call.params))
    return found


def _version(call: Call) -> Json:
    secret, version = _secret(call), call.params["version"]
    found = version_named(call.cloud.store, secret, version)
    if found is None:
        raise not_found(f"Secret Version [{secret}/versions/{version}]")
    return found


def _shown(document: Json) -> Json:
    return {key: value for key, value in document.items() if not key.startswith("_")}


@routes.on("POST", _SECRETS)
def create_secret(call: Call) -> Json:
    """Create a secret, without a version."""
    secret_id = call.query.get("secretId", "")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,255}", secret_id):
        raise invalid(f"The secret id {secret_id!r} must be 1 to 255 letters, digits, '_' and '-'.")
    if not call.body.get("replication"):
        raise invalid("Field [secret.replication] is required.")
    name = f"projects/{call.params['project']}/secrets/{secret_id}"
    if call.cloud.store.get(Kind.SECRET, name) is not None:
        raise already_exists(f"Secret [{name}]")
    secret = {**call.body, "name": name, "createTime": timestamp()}
    call.cloud.store.put(Kind.SECRET, name, {**secret, "etag": f'"{etag(secret)}"'})
    return call.cloud.store.get(Kind.SECRET, name) or {}


@routes.on("GET", _SECRETS)
def list_secrets(call: Call) -> Json:
    """Secrets of a project."""
    return page(call, call.cloud.store.list(Kind.SECRET, f"projects/{call.params['project']}/secrets/"), "secrets")


@routes.on("GET", _SECRET)
def get_secret(call: Call) -> Json:
    """One secret; not its content."""
    return call.cloud.store.get(Kind.SECRET, _secret(call)) or {}


@routes.on("DELETE", _SECRET)
def delete_secret(call: Call) -> Json:
    """Remove a secret with its versions and its policy."""
    name, store = _secret(call), call.cloud.store
    for version in store.names(Kind.SECRET_VERSION, f"{name}/versions/"):
        store.delete(Kind.SECRET_VERSION, version)
    store.delete(Kind.SECRET, name)
    policies.drop(store, f"secretmanager.googleapis.com/{name}")
    return {}


@routes.on("POST", _SECRET + ":addVersion")
def add_version(call: Call) -> Json:
    """Add a version, numbered from 1."""
    secret, store = _secret(call), call.cloud.store
    data = str(obj(call.body.get("payload")).get("data", ""))
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise invalid("payload.data must be base64.") from error
    numbers = [int(name.rpartition("/")[2]) for name in store.names(Kind.SECRET_VERSION, f"{secret}/versions/")]
    name = f"{secret}/versions/{max(numbers, default=0) + 1}"
    version: Json = {"name": name, "createTime": timestamp(), "state": ENABLED, "_data": data}
    store.put(Kind.SECRET_VERSION, name, version)
    return _shown(version)


@routes.on("GET", _VERSIONS)
def list_versions(call: Call) -> Json:
    """Versions of a secret, newest first."""
    found = call.cloud.store.list(Kind.SECRET_VERSION, f"{_secret(call)}/versions/")
    found.sort(key=lambda one: -int(str(one["name"]).rpartition("/")[2]))
    return page(call, [_shown(one) for one in found], "versions")


@routes.on("GET", _VERSION)
def get_version(call: Call) -> Json:
    """One version, not its content."""
    return _shown(_version(call))


@routes.on("GET", _VERSION + ":access")
def access_version(call: Call) -> Json:
    """The content of a version."""
    version = _version(call)
    if version["state"] != ENABLED:
        raise failed_precondition(f"Secret Version [{version['name']}] is in {version['state']} state.")
    return {"name": version["name"], "payload": {"data": version["_data"]}}


def _add_state(verb: str, state: str) -> None:
    @routes.on("POST", f"{_VERSION}:{verb}")
    def change(call: Call) -> Json:
        version = _version(call)
        if version["state"] == "DESTROYED":
            raise failed_precondition(f"Secret Version [{version['name']}] is in DESTROYED state.")
        changed = {**version, "state": state, **({"_data": ""} if verb == "destroy" else {})}
        call.cloud.store.put(Kind.SECRET_VERSION, str(version["name"]), changed)
        return _shown(changed)

    del change  # registered


for _verb, _state in _STATES.items():
    _add_state(_verb, _state)


policies.serve(routes, _SECRET, lambda call: f"secretmanager.googleapis.com/{_secret(call)}")
