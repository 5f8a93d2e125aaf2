"""What each account of continuous integration may do in a project, as data: role -> what it is needed for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BUILD_ROLE = "roles/logging.logWriter"
"""The one role that the program grants on a project: to the account that builds the image."""


@dataclass(frozen=True)
class Condition:
    """When a grant holds, in the words of IAM conditions."""

    title: str
    expression: str


PULUMI_PROJECT = "gpujob"
"""As Pulumi.yaml has it: a part of the path of each stack's state."""

LOOKS: Mapping[str, str] = {
    "roles/artifactregistry.reader": "whether the deployed image is still there",
    "roles/cloudbuild.builds.viewer": "the build that made it",
    "roles/iam.securityReviewer": "the grants on everything else in this list",
    "roles/iam.serviceAccountViewer": "accounts",
    "roles/logging.viewer": "log-based metrics",
    "roles/monitoring.viewer": "alerts, channels, dashboards",
    "roles/run.viewer": "the job",
    "roles/serviceusage.serviceUsageViewer": "which APIs are on",
    "roles/storage.bucketViewer": "buckets, not what is in them",
}
"""The preview account: `pulumi preview` and `pulumi refresh --preview-only`. Nothing here changes anything."""

DEPLOYS: Mapping[str, str] = {
    "roles/artifactregistry.admin": "makes the repository, grants on it, keeps promoted images",
    "roles/cloudbuild.builds.editor": "builds the image",
    "roles/iam.serviceAccountAdmin": "makes the accounts of job and build",
    "roles/iam.serviceAccountUser": "lets the job and the build run as them",
    "roles/logging.configWriter": "log-based metrics",
    "roles/logging.viewer": "the build's log, when it failed",
    "roles/monitoring.alertPolicyEditor": "alerts",
    "roles/monitoring.dashboardEditor": "the dashboard",
    "roles/monitoring.notificationChannelEditor": "who gets the alerts",
    "roles/resourcemanager.projectIamAdmin": f"grants the build's account {BUILD_ROLE}, and no other role",
    "roles/run.developer": "the job",
    "roles/serviceusage.serviceUsageAdmin": "turns APIs on",
    "roles/storage.admin": "makes buckets and grants on them, but for the state's",
}
"""A deploy account: `pulumi up` and `pulumi destroy` of this program. Grants on secrets, keys, buckets and networks
that were there before are their owners' to give."""


PULLS = "roles/artifactregistry.reader"
"""Cloud Run takes an image only from an account that may read it, also where its own agent may."""


def own_state(bucket: str, stack: str) -> Condition:
    """The objects that Pulumi writes about one stack; a name that ends with * stands for all that begin so.

    State holds code that the engine runs at the next update (dynamic providers): whoever writes it acts as that stack's
    account.
    """
    file, folder = (stack[:-1], stack[:-1]) if stack.endswith("*") else (f"{stack}.", f"{stack}/")
    root = f"projects/_/buckets/{bucket}/objects/.pulumi"
    kinds = ("history", "backups", "locks/organization")
    names = [f"{root}/stacks/{PULUMI_PROJECT}/{file}", *(f"{root}/{kind}/{PULUMI_PROJECT}/{folder}" for kind in kinds)]
    return Condition("its own state", " || ".join(f"resource.name.startsWith('{name}')" for name in names))


def condition_of(role: str, state_bucket: str) -> Condition | None:
    """What holds a role to what it is needed for, where the role alone would allow more."""
    if role == "roles/resourcemanager.projectIamAdmin":
        modified = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
        return Condition("only the build's role", f"{modified}.hasOnly(['{BUILD_ROLE}'])")
    if role == "roles/storage.admin":
        path = f"projects/_/buckets/{state_bucket}"
        return Condition(
            "not the state",
            f"resource.name != '{path}' && !resource.name.startsWith('{path}/')",
        )
    return None
