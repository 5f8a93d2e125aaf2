"""The kinds of documents that the store keeps: one for each sort of thing that exists in this cloud."""

from enum import StrEnum


class Kind(StrEnum):
    """What a document is. The values are in every state directory: they never change their meaning."""

    JOB = "run.job"
    EXECUTION = "run.execution"
    TASK = "run.task"
    ATTEMPTS = "run.attempts"
    """What became of each attempt of a task; by the task's name."""
    CANCELLED = "run.cancelled"
    """Marks an execution whose cancellation must outlive the server."""
    BUCKET = "storage.bucket"
    ACCOUNT = "iam.account"
    """A service account; by its e-mail address."""
    REPOSITORY = "artifactregistry.repository"
    IMAGE = "artifactregistry.image"
    """One digest of a package; by `projects/P/locations/L/repositories/R/dockerImages/NAME@sha256:...`."""
    BUILD = "cloudbuild.build"
    METRIC = "logging.metric"
    MONITORING = "monitoring"
    """Alert policies, notification channels and dashboards, which their names tell apart."""
    SCHEDULED_JOB = "scheduler.job"
    SERVICE = "serviceusage.service"
    """An enabled API; by `PROJECT/SERVICE`."""
    SECRET = "secretmanager.secret"  # noqa: S105
    SECRET_VERSION = "secretmanager.version"  # noqa: S105
    """One version with its content."""
    POLICY = "policy"
    """The IAM policy of any resource; by `PRODUCT.googleapis.com/RESOURCE`."""
    OPERATION = "operation"
