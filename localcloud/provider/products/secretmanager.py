"""Grants on a secret. Secrets and versions are made by people: their content has no place in a program's state."""

from __future__ import annotations

import re

from localcloud.provider.errors import Refused
from localcloud.provider.fields import text
from localcloud.provider.iam import IamMember, member_inputs
from localcloud.provider.resource import PROJECT
from localcloud.provider.rest import Rest
from localcloud.provider.values import Values, last_part

_ENDPOINT = "secretManagerCustomEndpoint"
_FULL_NAME = re.compile(r"projects/([^/]+)/secrets/([^/]+)")


class SecretIamMember(IamMember):
    token = "gcp:secretmanager/secretIamMember:SecretIamMember"  # noqa: S105
    noun = "IAM member of a secret"
    target_inputs = (PROJECT, text("secretId", required=True, replaces=True, local=True, meaning=last_part))
    inputs = (*target_inputs, *member_inputs())
    import_form = "projects/PROJECT/secrets/NAME ROLE MEMBER"

    def target_of(self, inputs: Values) -> str:
        name = str(inputs["secretId"])
        return name if _FULL_NAME.fullmatch(name) else f"projects/{inputs['project']}/secrets/{name}"

    def target_named(self, name: str) -> Values:
        match = _FULL_NAME.fullmatch(name)
        if not match:
            raise Refused(f"{name!r} is no secret; give '{self.import_form}'")
        return {"project": match[1], "secretId": match[2]}

    def read_policy(self, rest: Rest, target: str) -> Values:
        return rest.call("GET", f"{rest.settings.endpoint(_ENDPOINT)}{target}:getIamPolicy")

    def write_policy(self, rest: Rest, target: str, policy: Values) -> None:
        rest.call("POST", f"{rest.settings.endpoint(_ENDPOINT)}{target}:setIamPolicy", body={"policy": policy})


TYPES = (SecretIamMember(),)
