"""Who may sign in: the workflows of one GitHub repository, each job only as far as its environment goes."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import iam

ISSUER = "https://token.actions.githubusercontent.com"
MAIN_ONLY = ("dev", "prod")
"""Environments whose jobs count only on main, whatever GitHub's own rules for them say."""
NO_ENVIRONMENT = "none"
_SCOPE = (
    f"!has(assertion.environment) ? '{NO_ENVIRONMENT}' : "
    f"(assertion.environment in {list(MAIN_ONLY)} && assertion.ref != 'refs/heads/main') ? 'refused' : "
    "assertion.environment"
)


@dataclass(frozen=True)
class FederationArgs:
    """The repository, by name and by number."""

    project: str
    repository: str
    repository_id: str


class Federation(pulumi.ComponentResource):
    """A workload identity pool and its one provider. No key is made; a token is good for the job that asked for it.

    The subject is not what accounts are bound to: repositories made since June 2026 spell it with their numbers, older
    ones without.
    """

    pool: pulumi.Output[str]
    """projects/NUMBER/locations/global/workloadIdentityPools/github"""
    provider: pulumi.Output[str]

    def __init__(self, name: str, args: FederationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:bootstrap:Federation", name, None, opts)
        pool = iam.WorkloadIdentityPool(
            f"{name}-pool",
            project=args.project,
            workload_identity_pool_id="github",
            display_name="GitHub Actions",
            opts=pulumi.ResourceOptions(parent=self),
        )
        provider = iam.WorkloadIdentityPoolProvider(
            f"{name}-provider",
            project=args.project,
            workload_identity_pool_id=pool.workload_identity_pool_id,
            workload_identity_pool_provider_id="repository",
            # At most 32 characters.
            display_name=args.repository[:32],
            attribute_mapping={"google.subject": "assertion.sub", "attribute.scope": _SCOPE},
            attribute_condition=(
                f"assertion.repository == '{args.repository}' && assertion.repository_id == '{args.repository_id}' "
                "&& assertion.event_name in ['pull_request', 'push', 'schedule', 'workflow_dispatch']"
            ),
            oidc=iam.WorkloadIdentityPoolProviderOidcArgs(issuer_uri=ISSUER),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.pool = pool.name
        self.provider = provider.name
        self.register_outputs({"provider": self.provider})

    def jobs_in(self, environment: str) -> pulumi.Output[str]:
        """The IAM member that jobs in this GitHub environment are (NO_ENVIRONMENT: those in none)."""
        return pulumi.Output.concat("principalSet://iam.googleapis.com/", self.pool, f"/attribute.scope/{environment}")
