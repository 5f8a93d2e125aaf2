"""What a stack tells people and the `gpujob` command: names, exact commands, links, and the worst case in dollars."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from infra.settings import Settings

CONSOLE = "https://console.cloud.google.com"


def exports(
    settings: Settings, *, image: Any, image_digest: Any, service_account: Any, job_id: Any, dashboard_url: Any = None
) -> dict[str, Any]:
    """Name -> value. The keyword arguments are known only after deployment; all else follows from the settings."""
    exposure, expected = settings.exposure, settings.expectation
    return {
        "project": settings.project,
        "region": settings.region,
        "jobName": settings.job,
        "jobId": job_id,
        "bucket": settings.bucket,
        "bucketUrl": f"gs://{settings.bucket}",
        "checkpointUrl": f"gs://{settings.bucket}/{settings.job}-task-0",
        "image": image,
        "imageDigest": image_digest,
        "imageSource": "built" if settings.builds_image else "pinned",
        "serviceAccount": service_account,
        **_commands(settings),
        **_links(settings),
        "exposureGpuHours": exposure.gpu_hours,
        "exposureUsd": exposure.usd,
        # What was not asked for, or cannot be known, is absent rather than empty.
        **({} if dashboard_url is None else {"dashboardUrl": dashboard_url}),
        **({} if expected is None else {"expectedGpuHours": expected.gpu_hours, "expectedUsd": expected.usd}),
        "endpoints": dict(settings.endpoints),
    }


def _commands(settings: Settings) -> dict[str, str]:
    where = f"--region {settings.region} --project {settings.project}"
    newest = f"gcloud run jobs executions list --job {settings.job} {where} --limit 1 --format 'value(metadata.name)'"
    entries = "--limit 200 --freshness 7d --format 'value(timestamp,severity,jsonPayload.message,textPayload)'"
    return {
        "runCommand": f"gcloud run jobs execute {settings.job} {where}",
        "statusCommand": f"gcloud run jobs executions list --job {settings.job} {where}",
        "logsCommand": f"gcloud logging read '{_log_filter(settings)}' --project {settings.project} {entries}",
        "cancelCommand": f'gcloud run jobs executions cancel "$({newest})" {where}',
    }


def _links(settings: Settings) -> dict[str, str]:
    query = quote(_log_filter(settings), safe="")
    job = f"{settings.region}/{settings.job}"
    return {
        "consoleUrl": f"{CONSOLE}/run/jobs/details/{job}/executions?project={settings.project}",
        "logsUrl": f"{CONSOLE}/logs/query;query={query}?project={settings.project}",
    }


def _log_filter(settings: Settings) -> str:
    return (
        f'resource.type="cloud_run_job" AND resource.labels.job_name="{settings.job}" '
        f'AND resource.labels.location="{settings.region}"'
    )
