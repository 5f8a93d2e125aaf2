"""Service accounts, and members of a service account's own IAM policy (who may act as it)."""

from __future__ import annotations

import re

from localcloud.provider.errors import ProviderError, Refused, Unfinished
from localcloud.provider.fields import flag, text
from localcloud.provider.iam import IamMember, member_inputs
from localcloud.provider.resource import DELETION_POLICY, PROJECT, ResourceType, fetched, removed
from localcloud.provider.rest import Rest
from localcloud.provider.settings import Settings
from localcloud.provider.values import UNKNOWN, Values

_ENDPOINT = "iamBetaCustomEndpoint"
_FULL_NAME = re.compile(r"projects/([^/]+)/serviceAccounts/(([^/@]+)@[^/]+)")


def _email(inputs: Values) -> str:
    return str(inputs.get("email") or f"{inputs['accountId']}@{inputs['project']}.iam.gserviceaccount.com")


class Account(ResourceType):
    token = "gcp:serviceaccount/account:Account"  # noqa: S105
    noun = "service account"
    identity = ("project", "accountId")
    inputs = (
        PROJECT,
        text("accountId", required=True, replaces=True, local=True),
        text("displayName"),
        text("description"),
        flag("disabled", default=False),
        DELETION_POLICY,
    )
    outputs = {"email": "email", "name": "name", "uniqueId": "uniqueId"}  # noqa: RUF012 - declared ClassVar in the base

    def id_of(self, inputs: Values) -> str:
        return f"projects/{inputs['project']}/serviceAccounts/{_email(inputs)}"

    def named_by(self, given: str) -> Values:
        match = _FULL_NAME.fullmatch(given)
        if not match:
            raise Refused(f"{given!r} is no service account; give projects/PROJECT/serviceAccounts/EMAIL")
        return {"project": match[1], "accountId": match[3], "email": match[2]}

    def problems(self, inputs: Values) -> list[tuple[str, str]]:
        name = str(inputs.get("accountId", ""))
        if name in ("", UNKNOWN) or re.fullmatch(r"[a-z](?:[-a-z0-9]{4,28}[a-z0-9])", name):
            return []
        return [("accountId", f"must be 6 to 30 of a-z, 0-9 and -, begin with a letter and not end with -: {name!r}")]

    def planned(self, inputs: Values) -> Values:
        if UNKNOWN in (inputs["accountId"], inputs["project"]):
            return {}
        email = _email(inputs)
        return {"email": email, "member": f"serviceAccount:{email}"}

    def values(self, settings: Settings, answer: Values, inputs: Values) -> Values:
        found = super().values(settings, answer, inputs)
        return {**found, "member": f"serviceAccount:{answer['email']}"}

    def create(self, rest: Rest, inputs: Values, timeout_s: float) -> None:  # noqa: ARG002
        body: Values = {"accountId": inputs["accountId"], "serviceAccount": self._body(inputs)}
        url = f"{rest.settings.endpoint(_ENDPOINT)}projects/{inputs['project']}/serviceAccounts"
        rest.call("POST", url, body=body)
        if inputs.get("disabled"):
            try:
                rest.call("POST", f"{self._url(rest, inputs)}:disable", body={})
            except ProviderError as error:
                raise Unfinished(f"the account was made, but not disabled: {error}") from error

    def fetch(self, rest: Rest, inputs: Values) -> Values | None:
        return fetched(rest, self._url(rest, inputs))

    def update(self, rest: Rest, old: Values, new: Values, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        if bool(old.get("disabled")) != bool(new.get("disabled")):
            rest.call("POST", f"{self._url(rest, state)}:{'disable' if new.get('disabled') else 'enable'}", body={})
        masks = (("description", "description"), ("displayName", "display_name"))
        mask = [api for name, api in masks if (old.get(name) or "") != (new.get(name) or "")]
        if mask:
            body: Values = {"updateMask": ",".join(mask), "serviceAccount": self._body(new)}
            rest.call("PATCH", self._url(rest, state), body=body)

    def delete(self, rest: Rest, state: Values, timeout_s: float) -> None:  # noqa: ARG002
        removed(rest, self._url(rest, state))

    def _url(self, rest: Rest, inputs: Values) -> str:
        return f"{rest.settings.endpoint(_ENDPOINT)}projects/{inputs['project']}/serviceAccounts/{_email(inputs)}"

    def _body(self, inputs: Values) -> Values:
        return {name: inputs[name] for name in ("displayName", "description") if inputs.get(name)}


class AccountIamMember(IamMember):
    token = "gcp:serviceaccount/iAMMember:IAMMember"  # noqa: S105
    noun = "IAM member of a service account"
    target_inputs = (text("serviceAccountId", required=True, replaces=True, local=True),)
    inputs = (*target_inputs, *member_inputs())
    import_form = "projects/PROJECT/serviceAccounts/EMAIL ROLE MEMBER"

    def target_of(self, inputs: Values) -> str:
        return str(inputs["serviceAccountId"])

    def target_named(self, name: str) -> Values:
        return {"serviceAccountId": name}

    def problems(self, inputs: Values) -> list[tuple[str, str]]:
        name = str(inputs.get("serviceAccountId", ""))
        found = super().problems(inputs)
        if name not in ("", UNKNOWN) and not _FULL_NAME.fullmatch(name):
            found.append(("serviceAccountId", f"must be projects/PROJECT/serviceAccounts/EMAIL, not {name!r}"))
        return found

    def read_policy(self, rest: Rest, target: str) -> Values:
        url = f"{rest.settings.endpoint(_ENDPOINT)}{target}:getIamPolicy"
        return rest.call("POST", url, query={"options.requestedPolicyVersion": "3"})

    def write_policy(self, rest: Rest, target: str, policy: Values) -> None:
        url = f"{rest.settings.endpoint(_ENDPOINT)}{target}:setIamPolicy"
        rest.call("POST", url, body={"policy": policy})


TYPES = (Account(), AccountIamMember())
