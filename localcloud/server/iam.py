"""IAM v1: service accounts and their policies."""

import re

from localcloud.jsontypes import Json, obj
from localcloud.kinds import Kind
from localcloud.resources import etag, numeric_id
from localcloud.server import policies
from localcloud.server.errors import ApiError, invalid, not_found
from localcloud.server.http import Call, Routes, page
from localcloud.server.masks import masked

routes = Routes("/iam/v1", "/v1")
_ACCOUNTS = "/projects/{project}/serviceAccounts"
_ACCOUNT = _ACCOUNTS + "/{account}"


def _account(call: Call) -> Json:
    """By e-mail address or unique number, in the project named or in `-`."""
    wanted = call.params["account"]
    account = call.cloud.store.get(Kind.ACCOUNT, wanted)
    if account is None:
        account = next((each for each in call.cloud.store.list(Kind.ACCOUNT) if each["uniqueId"] == wanted), None)
    if account is None or call.params["project"] not in ("-", account["projectId"]):
        raise ApiError(404, f"Unknown service account: {wanted}")
    return account


def _store(call: Call, account: Json) -> Json:
    account.pop("etag", None)
    account["etag"] = etag(account)
    call.cloud.store.put(Kind.ACCOUNT, account["email"], account)
    return account


@routes.on("POST", _ACCOUNTS)
def create_account(call: Call) -> Json:
    """Create an account; its name stands for one identity, and a later account of the same name for another."""
    account_id, project = str(call.body.get("accountId", "")), call.params["project"]
    if not re.fullmatch(r"[a-z](?:[-a-z0-9]{4,28}[a-z0-9])", account_id):
        raise invalid(
            f"The account ID {account_id!r} does not have a length between 6 and 30, or is not lowercase letters, "
            "digits and '-'."
        )
    email = f"{account_id}@{project}.iam.gserviceaccount.com"
    if call.cloud.store.get(Kind.ACCOUNT, email) is not None:
        raise ApiError(409, f"Service account {account_id} already exists within project projects/{project}.")
    number = numeric_id()
    fields = {
        key: value
        for key, value in obj(call.body.get("serviceAccount")).items()
        if key in ("displayName", "description")
    }
    account: Json = {
        "name": f"projects/{project}/serviceAccounts/{email}",
        "projectId": project,
        "uniqueId": number,
        "email": email,
        "oauth2ClientId": number,
        **fields,
    }
    return _store(call, account)


@routes.on("GET", _ACCOUNTS)
def list_accounts(call: Call) -> Json:
    """Accounts of a project."""
    accounts = [each for each in call.cloud.store.list(Kind.ACCOUNT) if each["projectId"] == call.params["project"]]
    return page(call, accounts, "accounts")


@routes.on("GET", _ACCOUNT)
def get_account(call: Call) -> Json:
    """One account."""
    return _account(call)


@routes.on("PATCH", _ACCOUNT)
def patch_account(call: Call) -> Json:
    """Change display name or description, as the mask in the body says."""
    mask = str(call.body.get("updateMask", ""))
    if not mask:
        raise invalid("updateMask: must name the fields to change (display_name, description).")
    return _store(call, masked(_account(call), obj(call.body.get("serviceAccount")), mask))


@routes.on("DELETE", _ACCOUNT)
def delete_account(call: Call) -> Json:
    """Remove the account; grants to it now go to its tombstone."""
    account = _account(call)
    call.cloud.store.delete(Kind.ACCOUNT, account["email"])
    policies.drop(call.cloud.store, f"iam.googleapis.com/{account['name']}")
    policies.forget_account(call.cloud.store, account["email"], account["uniqueId"])
    return {}


@routes.on("POST", _ACCOUNT + ":enable")
def enable_account(call: Call) -> Json:
    """Let the account be used again."""
    account = _account(call)
    account.pop("disabled", None)
    _store(call, account)
    return {}


@routes.on("POST", _ACCOUNT + ":disable")
def disable_account(call: Call) -> Json:
    """Stop the account from being used."""
    _store(call, {**_account(call), "disabled": True})
    return {}


policies.serve(routes, _ACCOUNT, lambda call: f"iam.googleapis.com/{_account(call)['name']}", read_by="POST")


@routes.on("GET", _ACCOUNT + "/keys")
def list_keys(call: Call) -> Json:
    """Accounts have no keys here: nothing on this machine checks credentials."""
    _account(call)
    return {}


@routes.on("POST", _ACCOUNT + "/keys")
def create_key(call: Call) -> Json:
    """Refused, see `list_keys`."""
    raise not_found(f"keys of {_account(call)['email']} (the local cloud makes none)")
