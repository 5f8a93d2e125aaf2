"""Where images are kept: one Docker repository that cleans up after itself but never removes what may be running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import artifactregistry

from infra.ownership import LABEL_STAYS

KEEP_VERSIONS = 10
PROMOTED_PREFIX = "promoted-"
"""A tag that begins so keeps its image, however old: another stack may be running it (`gpujob promote`)."""
DELETE_OLDER_THAN = "2592000s"
"""30 days."""


@dataclass(frozen=True)
class RegistryArgs:
    """A repository, its readers and its writers."""

    project: str
    region: str
    repository: str
    labels: Mapping[str, str]
    kms_key: str
    """Empty: Google's own keys. Cannot be changed: another key is another repository."""
    disposable: bool
    """False: the engine refuses to delete it, and with it the image that the job runs."""
    readers: Mapping[str, pulumi.Input[str]]
    """Short name -> member. Cloud Run of the same project pulls by its own agent and needs no grant."""
    writers: Mapping[str, pulumi.Input[str]]


class Registry(pulumi.ComponentResource):
    """A Docker repository. The newest versions are kept whatever their age: one of them is what the job runs."""

    name: pulumi.Output[str]
    grants: list[pulumi.Resource]

    def __init__(self, name: str, args: RegistryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpujob:infra:Registry", name, None, opts)
        repository = artifactregistry.Repository(
            f"{name}-repository",
            project=args.project,
            location=args.region,
            repository_id=args.repository,
            format="DOCKER",
            kms_key_name=args.kms_key or None,
            labels=dict(args.labels),
            cleanup_policies=[_keep_newest(), _keep_promoted(), _delete_old()],
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                protect=not args.disposable,
                ignore_changes=[LABEL_STAYS],
            ),
        )
        self.name = repository.name
        grants = [(short, "roles/artifactregistry.reader", member) for short, member in args.readers.items()]
        grants += [(short, "roles/artifactregistry.writer", member) for short, member in args.writers.items()]
        self.grants = [
            artifactregistry.RepositoryIamMember(
                f"{name}-{short}",
                project=args.project,
                location=args.region,
                repository=repository.name,
                role=role,
                member=member,
                opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
            )
            for short, role, member in grants
        ]
        self.register_outputs({"name": self.name})


def _keep_newest() -> artifactregistry.RepositoryCleanupPolicyArgs:
    return artifactregistry.RepositoryCleanupPolicyArgs(
        id="keep-newest",
        action="KEEP",
        most_recent_versions=artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(keep_count=KEEP_VERSIONS),
    )


def _keep_promoted() -> artifactregistry.RepositoryCleanupPolicyArgs:
    return artifactregistry.RepositoryCleanupPolicyArgs(
        id="keep-promoted",
        action="KEEP",
        condition=artifactregistry.RepositoryCleanupPolicyConditionArgs(
            tag_state="TAGGED", tag_prefixes=[PROMOTED_PREFIX]
        ),
    )


def _delete_old() -> artifactregistry.RepositoryCleanupPolicyArgs:
    return artifactregistry.RepositoryCleanupPolicyArgs(
        id="delete-old",
        action="DELETE",
        condition=artifactregistry.RepositoryCleanupPolicyConditionArgs(tag_state="ANY", older_than=DELETE_OLDER_THAN),
    )
