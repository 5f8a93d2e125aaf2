"""Grants on a secret. Secrets and versions are made by people: their content has no place in a program's state."""

from __future__ import annotations

from localcloud.provider.fields import text
from localcloud.provider.iam import NamedIamMember, member_inputs
from localcloud.provider.resource import PROJECT
from localcloud.provider.values import last_part

_ENDPOINT = "secretManagerCustomEndpoint"


class SecretIamMember(NamedIamMember):
    token = "gcp:secretmanager/secretIamMember:SecretIamMember"  # noqa: S105
    noun = "IAM member of a secret"
    target_inputs = (PROJECT, text("secretId", required=True, replaces=True, local=True, meaning=last_part))
    inputs = (*target_inputs, *member_inputs())
    import_form = "projects/PROJECT/secrets/NAME ROLE MEMBER"
    endpoint = _ENDPOINT
    full_name = "projects/{project}/secrets/{secretId}"
    target_noun = "secret"


TYPES = (SecretIamMember(),)
