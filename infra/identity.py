"""Who the job and its build are: one account each, with no key and no role on the project beyond writing build logs."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.ownership import described
from infra.settings import Settings


@dataclass(frozen=True)
class AccountArgs:
    """A service account and what it holds on the project itself."""

    project: str
    account_id: str
    display_name: str
    description: str | None = None
    project_roles: tuple[str, ...] = ()
    """Only roles that no single resource can grant; everything else is granted on the resource."""

    @classmethod
    def of_job(cls, settings: Settings) -> AccountArgs:
        """What the job runs as: it holds nothing on the project."""
        return cls(settings.project, settings.account, "GPU job", described(settings.stack))


class Account(pulumi.ComponentResource):
    """A service account for what runs as it. No key is made: the platform hands out short-lived tokens."""

    email: pulumi.Output[str]
    id: pulumi.Output[str]
    """projects/P/serviceAccounts/EMAIL, as Cloud Build wants it."""
    member: pulumi.Output[str]
    """serviceAccount:EMAIL, as grants want it."""
    grants: list[pulumi.Resource]
    """The project-level grants, for what must not start before them."""

    def __init__(self, name: str, args: AccountArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:infra:Account", name, None, opts)
        account = gcp.serviceaccount.Account(
            f"{name}-account",
            project=args.project,
            account_id=args.account_id,
            display_name=args.display_name,
            description=args.description,
            # The name is fixed: a second account of that name cannot exist beside the first.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True, ignore_changes=["description"]),
        )
        self.email = account.email
        self.id = account.name
        self.member = account.member
        self.grants = [
            gcp.projects.IAMMember(
                f"{name}-{role.removeprefix('roles/').replace('.', '-')}",
                project=args.project,
                role=role,
                member=account.member,
                opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
            )
            for role in args.project_roles
        ]
        self.register_outputs({"email": self.email})
