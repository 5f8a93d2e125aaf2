"""What the bootstrap exports: the variables that the workflows read, and the commands that set them."""

from __future__ import annotations

import re

from tests.bootstrap.acme import ENVIRONMENTS, POOL, STATE, TREE, email, key
from tests.infra.conftest import Registered

WORKFLOWS = sorted(TREE.glob(".github/workflows/*.yml"))


def test_exports_exactly_the_variables_that_the_workflows_read(registered: Registered) -> None:
    read = {name for file in WORKFLOWS for name in re.findall(r"\bvars\.(\w+)", file.read_text())}
    outputs = registered.outputs
    of_environments = outputs["environmentVariables"]
    assert read == {*outputs["variables"], *(name for values in of_environments.values() for name in values)}
    named = {name for file in WORKFLOWS for name in re.findall(r"^ +environment: (\S+)$", file.read_text(), re.M)}
    # What previews prod reads a variable of the repository, as the nightly comparison does, which is in no environment.
    assert {*of_environments, "prod-preview"} == named


def test_exports_the_values_and_the_commands_to_put_them_in_place(registered: Registered) -> None:
    outputs = registered.outputs
    assert outputs["variables"] == {
        "GCP_WORKLOAD_IDENTITY_PROVIDER": f"{POOL}/providers/repository",
        "GCP_PREVIEW_ACCOUNT": email("preview"),
        "GCP_PROD_PREVIEW_ACCOUNT": email("prod-preview"),
        "PULUMI_STATE_URL": f"gs://{STATE}",
        "PULL_REQUEST_PROJECT": "acme-requests",
        "PULL_REQUEST_SECRETS_PROVIDER": f"gcpkms://{key('pull-request')}",
    }
    assert outputs["environmentVariables"] == {
        name: {"GCP_DEPLOY_ACCOUNT": email(f"deploy-{name}")} for name in ENVIRONMENTS
    }
    assert outputs["variableCommands"] == [
        *(f"gh variable set {name} --repo acme/gpujob --body '{v}'" for name, v in outputs["variables"].items()),
        *(
            f"gh variable set GCP_DEPLOY_ACCOUNT --repo acme/gpujob --env {name} --body '{email(f'deploy-{name}')}'"
            for name in ENVIRONMENTS
        ),
    ]
    assert outputs["stateCommands"] == [
        f"pulumi login gs://{STATE}",
        f"pulumi stack init dev --secrets-provider 'gcpkms://{key('dev')}'",
        f"pulumi stack init prod --secrets-provider 'gcpkms://{key('prod')}'",
    ]
