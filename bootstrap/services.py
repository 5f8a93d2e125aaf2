"""The APIs that federation, state and the accounts need, and the two without which the program could not begin."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi
from pulumi_gcp import projects

EVERYWHERE = ("cloudkms", "cloudresourcemanager", "iam", "iamcredentials", "serviceusage")
"""Also in the projects that are deployed to: the program turns on the rest itself. An API must be on where the account
that asks is, not only where the key or the job is that it asks about."""
HOME = (*EVERYWHERE, "artifactregistry", "logging", "monitoring", "run", "secretmanager", "storage", "sts")
"""The preview account is here, so also what it looks at in the other projects."""


class Services(pulumi.ComponentResource):
    """Enabled APIs, left enabled when this goes."""

    enabled: list[pulumi.Resource]

    def __init__(self, name: str, home: str, others: Iterable[str]) -> None:
        super().__init__("gpujob:bootstrap:Services", name)
        wanted = {(home, api) for api in HOME} | {(project, api) for project in others for api in EVERYWHERE}
        self.enabled = [
            projects.Service(
                f"{name}-{project}-{api}",
                project=project,
                service=f"{api}.googleapis.com",
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for project, api in sorted(wanted)
        ]
        self.register_outputs({})
