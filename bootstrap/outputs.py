"""What is exported: the variables that the workflows read, and the commands that put them where they belong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from bootstrap.settings import Settings

STACKS = ("dev", "prod")


def exports(
    settings: Settings,
    *,
    variables: Mapping[str, pulumi.Input[str]],
    secrets_providers: Mapping[str, pulumi.Output[str]],
    environment_variables: Mapping[str, Mapping[str, pulumi.Output[str]]],
) -> dict[str, pulumi.Output[Any]]:
    """`variables` are the repository's, `environment_variables` those of each GitHub environment.

    `secrets_providers` say for each stack which key seals its secrets.
    """
    repository = settings.repository
    set_all = [
        *(_set(name, value, repository) for name, value in variables.items()),
        *(
            _set(name, value, f"{repository} --env {environment}")
            for environment, values in environment_variables.items()
            for name, value in values.items()
        ),
    ]
    url = variables["PULUMI_STATE_URL"]
    stacks = [
        pulumi.Output.concat(f"pulumi stack init {stack} --secrets-provider '", secrets_providers[stack], "'")
        for stack in STACKS
    ]
    return {
        "variables": pulumi.Output.all(**variables),
        "environmentVariables": pulumi.Output.all(
            **{name: pulumi.Output.all(**values) for name, values in environment_variables.items()}
        ),
        "variableCommands": pulumi.Output.all(*set_all),
        "stateCommands": pulumi.Output.all(pulumi.Output.concat("pulumi login ", url), *stacks),
    }


def _set(name: str, value: pulumi.Input[str], where: str) -> pulumi.Output[str]:
    return pulumi.Output.concat(f"gh variable set {name} --repo {where} --body '", value, "'")
