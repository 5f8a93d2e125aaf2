"""An account of continuous integration: what it may do, and whose jobs may act as it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects, serviceaccount

from bootstrap.roles import PULLS, condition_of


@dataclass(frozen=True)
class AccountArgs:
    """Roles are granted in each of `projects`."""

    project: str
    """Where the account is."""
    account_id: str
    display_name: str
    roles: Iterable[str]
    projects: Iterable[str]
    state_bucket: str
    acting: Mapping[str, pulumi.Input[str]]
    """Short name -> member that may act as the account."""
    pulls_from: Iterable[str] = ()
    """Further projects, whose images it deploys."""


class Account(pulumi.ComponentResource):
    """A service account without a key. IAM by *Member, so that what others granted stays."""

    email: pulumi.Output[str]
    member: pulumi.Output[str]

    def __init__(self, name: str, args: AccountArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:bootstrap:Account", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, delete_before_replace=True)
        account = serviceaccount.Account(
            f"{name}-account",
            project=args.project,
            account_id=args.account_id,
            display_name=args.display_name,
            opts=child,
        )
        self.email = account.email
        self.member = account.member
        for project in args.projects:
            for role in args.roles:
                condition = condition_of(role, args.state_bucket)
                projects.IAMMember(
                    f"{name}-{project}-{role.removeprefix('roles/').replace('.', '-')}",
                    project=project,
                    role=role,
                    member=account.member,
                    condition=condition
                    and projects.IAMMemberConditionArgs(title=condition.title, expression=condition.expression),
                    opts=child,
                )
        for project in args.pulls_from:
            projects.IAMMember(
                f"{name}-{project}-pulls", project=project, role=PULLS, member=account.member, opts=child
            )
        for who, member in args.acting.items():
            serviceaccount.IAMMember(
                f"{name}-acting-{who}",
                service_account_id=account.name,
                role="roles/iam.workloadIdentityUser",
                member=member,
                opts=child,
            )
        self.register_outputs({"email": self.email})
