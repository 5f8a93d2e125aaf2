"""What the program makes, by kind: how all of it is listed, what a stack calls its own, what deletes one. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from infra.settings import Settings


@dataclass(frozen=True)
class Kind:
    """Something that the program makes, and how all of its kind are listed."""

    noun: str
    service: str
    endpoint: str
    """The key of the Google provider that replaces `google`, without its CustomEndpoint."""
    google: str
    path: str
    """Below the endpoint; {project} and {region} are filled in."""
    items: str
    name: str
    """The field that names it."""
    names: Callable[[Settings], tuple[str, ...]]
    """What this stack calls its own; one that ends with * stands for all that begin so."""
    remove: str
    """The command that deletes one, {name} filled in."""
    role: str

    def name_of(self, document: Mapping[str, Any]) -> str:
        """Of a full resource name the last part; a metric's own name holds a slash."""
        name = unquote(str(document.get(self.name, "")))
        return name.rpartition("/")[2] if name.startswith("projects/") else name


KINDS = (
    Kind(
        "job", "Cloud Run", "cloudRunV2", "https://run.googleapis.com/v2/",
        "projects/{project}/locations/{region}/jobs", "jobs", "name", lambda s: (s.job,),
        "gcloud run jobs delete {name} --region {region} --project {project}", "roles/run.viewer",
    ),
    Kind(
        "bucket", "Cloud Storage", "storage", "https://storage.googleapis.com/storage/v1/", "b?project={project}",
        "items", "name", lambda s: (s.bucket, s.source_bucket),
        "gcloud storage rm --recursive gs://{name}", "roles/storage.bucketViewer",
    ),
    Kind(
        "repository", "Artifact Registry", "artifactRegistry", "https://artifactregistry.googleapis.com/v1/",
        "projects/{project}/locations/{region}/repositories", "repositories", "name", lambda s: (s.repository,),
        "gcloud artifacts repositories delete {name} --location {region} --project {project}",
        "roles/artifactregistry.reader",
    ),
    Kind(
        "account", "IAM", "iamBeta", "https://iam.googleapis.com/v1/", "projects/{project}/serviceAccounts",
        "accounts", "email", lambda s: tuple(_email(s, name) for name in (s.account, s.build_account)),
        "gcloud iam service-accounts delete {name} --project {project}", "roles/iam.serviceAccountViewer",
    ),
    Kind(
        "metric", "Cloud Logging", "logging", "https://logging.googleapis.com/v2/", "projects/{project}/metrics",
        "metrics", "name", lambda s: (f"{s.job}/*",),
        "gcloud logging metrics delete {name} --project {project}", "roles/logging.viewer",
    ),
    Kind(
        "alert policy", "Cloud Monitoring", "monitoring", "https://monitoring.googleapis.com/",
        "v3/projects/{project}/alertPolicies", "alertPolicies", "displayName", lambda s: (f"GPU job {s.job}: *",),
        "gcloud monitoring policies list --project {project} --filter 'displayName=\"{name}\"'",
        "roles/monitoring.viewer",
    ),
    Kind(
        "notification channel", "Cloud Monitoring", "monitoring", "https://monitoring.googleapis.com/",
        "v3/projects/{project}/notificationChannels", "notificationChannels", "displayName",
        lambda s: (f"GPU job {s.job}: *",),
        "gcloud beta monitoring channels list --project {project} --filter 'displayName=\"{name}\"'",
        "roles/monitoring.viewer",
    ),
    Kind(
        "dashboard", "Cloud Monitoring", "monitoring", "https://monitoring.googleapis.com/",
        "v1/projects/{project}/dashboards", "dashboards", "displayName", lambda s: (f"GPU job {s.job}",),
        "gcloud monitoring dashboards list --project {project} --filter 'displayName=\"{name}\"'",
        "roles/monitoring.viewer",
    ),
)  # fmt: skip


def _email(settings: Settings, account: str) -> str:
    return f"{account}@{settings.project}.iam.gserviceaccount.com"
