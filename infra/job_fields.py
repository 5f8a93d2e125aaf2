"""Every field of a Cloud Run job that the Google provider can send: which setting decides it, or why none does.

Pure data. A test walks the SDK's classes and holds this table against them, so that a new field is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_TASK = "template.template"
_CONTAINER = f"{_TASK}.containers"
_VOLUME = f"{_TASK}.volumes"

SET_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "location": ("gcp:region",),
        "project": ("gcp:project",),
        "name": ("jobName", "nameSuffix"),
        "labels": ("labels",),
        "launch_stage": ("timeout", "ephemeralDisk"),
        "deletion_protection": ("disposable",),
        "binary_authorization.use_default": ("binaryAuthorization",),
        "template.labels": ("labels",),
        "template.parallelism": ("parallelism",),
        "template.task_count": ("taskCount",),
        f"{_TASK}.encryption_key": ("kmsKey",),
        f"{_TASK}.max_retries": ("maxRetries",),
        f"{_TASK}.node_selector.accelerator": ("gpuType",),
        f"{_TASK}.service_account": ("accountName", "nameSuffix"),
        f"{_TASK}.timeout": ("timeout",),
        f"{_TASK}.vpc_access.egress": ("egress", "network", "subnetwork"),
        f"{_TASK}.vpc_access.network_interfaces.network": ("network",),
        f"{_TASK}.vpc_access.network_interfaces.subnetwork": ("subnetwork",),
        f"{_TASK}.vpc_access.network_interfaces.tags": ("networkTags",),
        f"{_CONTAINER}.image": ("image", "repositoryName", "nameSuffix"),
        f"{_CONTAINER}.args": ("workload", "workloadArgs"),
        f"{_CONTAINER}.envs.name": ("env", "secrets", "requireGpu"),
        f"{_CONTAINER}.envs.value": ("env", "requireGpu", "gpuType", "timeout", "maxRetries", "mountPath"),
        f"{_CONTAINER}.envs.value_source.secret_key_ref.secret": ("secrets",),
        f"{_CONTAINER}.envs.value_source.secret_key_ref.version": ("secrets",),
        f"{_CONTAINER}.resources.limits": ("cpu", "memory"),
        f"{_CONTAINER}.volume_mounts.mount_path": (
            "mountPath",
            "readOnlyBuckets",
            "ephemeralDisk",
            "ephemeralDiskPath",
        ),
        f"{_CONTAINER}.volume_mounts.name": ("readOnlyBuckets", "ephemeralDisk"),
        f"{_VOLUME}.name": ("readOnlyBuckets", "ephemeralDisk"),
        f"{_VOLUME}.gcs.bucket": ("bucketName", "nameSuffix", "readOnlyBuckets"),
        f"{_VOLUME}.gcs.mount_options": ("readOnlyBuckets",),
        f"{_VOLUME}.gcs.read_only": ("readOnlyBuckets",),
        f"{_VOLUME}.empty_dir.medium": ("ephemeralDisk",),
        f"{_VOLUME}.empty_dir.size_limit": ("ephemeralDisk",),
    }
)
"""Field -> the settings that decide it."""

FIXED: Mapping[str, str] = MappingProxyType(
    {
        f"{_TASK}.execution_environment": "always the second generation: GPUs and bucket mounts exist in no other",
        f"{_TASK}.gpu_zonal_redundancy_disabled": "always true: jobs have no GPUs with zonal redundancy",
        f"{_CONTAINER}.commands": "always `python -m app` in exec form, so that Python itself hears SIGTERM",
    }
)
"""Field -> why its value is the same in every stack."""

LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "annotations": "nobody here reads them; labels are what costs and logs are told apart by",
        "template.annotations": "as annotations",
        "client": "says which tool deployed, for Google's statistics",
        "client_version": "as client",
        "tags": "an organisation binds its resource manager tags to the project, and the job inherits them",
        "deletion_policy": "a second switch beside deletion_protection; `ABANDON` would leave a job that is billed",
        "functional_type": "registers agents; a training is none",
        "run_execution_token": "would start an execution on every deploy: money is spent on purpose, by `gpujob run`",
        "start_execution_token": "as run_execution_token",
        "binary_authorization.policy": "the project's own policy decides, by binaryAuthorization",
        "binary_authorization.breakglass_justification": "going around the policy once is no setting: it would stay",
        "template.delay_execution": "starts within 12 hours as capacity allows; a stop and a resume would wait too",
        f"{_TASK}.workload_identity_config": "certificates of managed workload identities; nothing uses them",
        f"{_TASK}.vpc_access.connector": "Direct VPC egress does the same without machines that are billed by the hour",
        f"{_CONTAINER}.name": "there is one container, and no other that could depend on its name",
        f"{_CONTAINER}.depends_ons": "there is one container",
        f"{_CONTAINER}.ports": "a task serves nobody; ports are for sidecars that wait for one another",
        f"{_CONTAINER}.startup_probe": "as ports; a worker that hangs is ended by its own watchdog",
        f"{_CONTAINER}.working_dir": "the image's own",
        f"{_CONTAINER}.sandbox_launcher": "starts untrusted programs in sandboxes; the worker starts none",
        f"{_CONTAINER}.volume_mounts.sub_path": "`folder` of readOnlyBuckets does it",
        f"{_VOLUME}.cloud_sql_instance": "training reads buckets; a database is reached through the network settings",
        f"{_VOLUME}.nfs": "a read-only bucket needs no server and no VPC, and can be rehearsed",
        f"{_VOLUME}.secret": "secrets are variables here: one way to see which version a task got",
    }
)
"""Field, with all below it -> why no setting offers it."""
