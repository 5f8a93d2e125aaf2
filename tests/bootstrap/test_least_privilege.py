"""Each role of a deploy account is there for something that the program makes; the documents name the same ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from bootstrap.roles import DEPLOYS
from tests.infra.conftest import Registered, deploy

__all__ = ["deploy"]
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

MADE_BY = {
    "gcp:artifactregistry/repository:Repository": "roles/artifactregistry.admin",
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": "roles/artifactregistry.admin",
    "gcp:cloudrunv2/job:Job": "roles/run.developer",
    "gcp:logging/metric:Metric": "roles/logging.configWriter",
    "gcp:monitoring/alertPolicy:AlertPolicy": "roles/monitoring.alertPolicyEditor",
    "gcp:monitoring/dashboard:Dashboard": "roles/monitoring.dashboardEditor",
    "gcp:monitoring/notificationChannel:NotificationChannel": "roles/monitoring.notificationChannelEditor",
    "gcp:projects/iAMMember:IAMMember": "roles/resourcemanager.projectIamAdmin",
    "gcp:projects/service:Service": "roles/serviceusage.serviceUsageAdmin",
    "gcp:serviceaccount/account:Account": "roles/iam.serviceAccountAdmin",
    "gcp:storage/bucket:Bucket": "roles/storage.admin",
    "gcp:storage/bucketIAMMember:BucketIAMMember": "roles/storage.admin",
    "pulumi-python:dynamic/gpujob:BuiltImage": "roles/cloudbuild.builds.editor",
}
"""What the program registers -> the role that makes, changes and deletes it."""
OWNERS_GRANT = {"gcp:secretmanager/secretIamMember:SecretIamMember": "roles/secretmanager.admin"}
"""On single things that were there before: not on the project."""
BESIDES = {
    "roles/iam.serviceAccountUser": "the job and the build run as accounts",
    "roles/logging.viewer": "why a build failed",
}
"""What no resource stands for."""


def test_a_deploy_account_has_the_roles_for_what_the_program_makes_and_no_other(
    deploy: Callable[..., Registered],
) -> None:
    made = deploy(
        notificationEmails='["a@example.com"]',
        imageReaders='["group:g@example.com"]',
        secrets=json.dumps({"TOKEN": "projects/demo-project/secrets/t/versions/1"}),
    )
    kinds = {kind for kind, _ in made.inputs if not kind.startswith("gpujob:infra:")}
    assert kinds - set(OWNERS_GRANT) == set(MADE_BY)
    assert set(DEPLOYS) == set(MADE_BY.values()) | set(BESIDES)


def test_the_documents_name_the_roles_of_a_deploy_account() -> None:
    section = PAGE.read_text().split("## What whoever runs `pulumi up` must be allowed")[1].split("\n## ")[0]
    bullets = section.split("\n- ")[1:]
    on_the_project = "\n".join([*bullets[:-1], bullets[-1].split("\n\n")[0]])
    missing = [role for role in DEPLOYS if f"`{role}`" not in on_the_project]
    assert missing == []
    for too_much in ("roles/monitoring.editor", "roles/editor", "roles/owner"):
        assert too_much not in section
