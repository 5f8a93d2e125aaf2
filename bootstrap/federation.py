"""Who may sign in: the workflows of one GitHub repository, each job only as far as its environment goes."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import iam

ISSUER = "https://token.actions.githubusercontent.com"
ON_MAIN = ("dev", "prod")
"""Environments whose jobs count only on main, whatever GitHub's own rules for them say."""
PROD_PREVIEW = "prod-preview"
"""The environment in which a pull request is shown what it would change on prod."""
OF_PULL_REQUESTS = (PROD_PREVIEW, "pull-request")
"""Environments whose jobs count only where a pull request started them: a push to a branch is seen by nobody."""
MAIN, PULL_REQUEST = "main", "none"
"""What jobs in no environment are: those on main, and those of pull requests."""
_SCOPE = (
    f"!has(assertion.environment) && assertion.ref == 'refs/heads/main' ? '{MAIN}' : "
    f"!has(assertion.environment) && assertion.event_name == 'pull_request' ? '{PULL_REQUEST}' : "
    "!has(assertion.environment) ? 'refused' : "
    f"assertion.environment in {list(ON_MAIN)} && assertion.ref == 'refs/heads/main' ? assertion.environment : "
    f"assertion.environment in {list(OF_PULL_REQUESTS)} && assertion.event_name == 'pull_request' "
    "? assertion.environment : "
    "'refused'"
)
_SUBJECT = "'repository:' + assertion.repository_id + ':run:' + assertion.run_id + ':' + assertion.run_attempt"
"""What audit logs show. Google takes 127 bytes at most and refuses the token otherwise; GitHub's own subject holds the
names of repository and branch, which may be longer. From the run everything else can be looked up."""


@dataclass(frozen=True)
class FederationArgs:
    """The repository, by name and by number."""

    project: str
    pool: str
    """Id of the pool. Google keeps that of a deleted one for 30 days."""
    repository: str
    repository_id: str


class Federation(pulumi.ComponentResource):
    """A workload identity pool and its one provider. No key is made; a token is good for the job that asked for it.

    The subject is not what accounts are bound to, but the scope: what a job's environment, branch and event make of it.
    """

    pool: pulumi.Output[str]
    """projects/NUMBER/locations/global/workloadIdentityPools/POOL"""
    provider: pulumi.Output[str]

    def __init__(self, name: str, args: FederationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:bootstrap:Federation", name, None, opts)
        pool = iam.WorkloadIdentityPool(
            f"{name}-pool",
            project=args.project,
            workload_identity_pool_id=args.pool,
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
            attribute_mapping={"google.subject": _SUBJECT, "attribute.scope": _SCOPE},
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

    def jobs_in(self, scope: str) -> pulumi.Output[str]:
        """The IAM member that jobs in this GitHub environment are (or, in none of them, MAIN and PULL_REQUEST)."""
        return pulumi.Output.concat("principalSet://iam.googleapis.com/", self.pool, f"/attribute.scope/{scope}")
