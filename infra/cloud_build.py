"""One build on Cloud Build: upload the context, build, wait, and answer the image's digest or the end of the log.

Runs in the dynamic provider's process, with Google's own clients; knows nothing of Pulumi.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from google.api_core.exceptions import Forbidden, GoogleAPICallError, PreconditionFailed
from google.cloud.devtools import cloudbuild_v1 as cb

from infra.connection import Connection, reach_directly
from infra.context import context_hash, pack

IMAGE_NAME = "worker"
BUILD_TIMEOUT_S = 3600
"""The default of 10 minutes is too short for CUDA wheels."""
LOG_TAIL_LINES = 40
FRESH_GRANT_WAITS_S = (5, 10, 20, 40, 60)
"""A grant or an account made seconds ago may not be known everywhere yet; Google speaks of minutes."""

ROOT = Path(__file__).parents[1]
"""The project's folder: the build context."""

Sleep = Callable[[float], None]
_DONE = cb.Build.Status


class BuildError(RuntimeError):
    """No image came out. The job still runs the image of before."""


@dataclass(frozen=True)
class BuildRequest:
    """What to build, as whom, and where the image goes."""

    project: str
    region: str
    context_hash: str
    source_bucket: str
    repository_url: str
    """REGION-docker.pkg.dev/PROJECT/REPOSITORY"""
    build_account: str
    """projects/P/serviceAccounts/EMAIL"""
    build_args: Mapping[str, str]

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> BuildRequest:
        """From the dynamic resource's camelCase inputs."""
        return cls(
            project=inputs["project"],
            region=inputs["region"],
            context_hash=inputs["contextHash"],
            source_bucket=inputs["sourceBucket"],
            repository_url=inputs["repositoryUrl"],
            build_account=inputs["buildAccount"],
            build_args=dict(inputs["buildArgs"]),
        )

    @property
    def image(self) -> str:
        return f"{self.repository_url}/{IMAGE_NAME}"

    @property
    def tag(self) -> str:
        """For people who look at the registry; the job is deployed by digest."""
        return f"{self.image}:context-{self.context_hash[:12]}"


def build(
    request: BuildRequest, connection: Connection, *, root: Path = ROOT, sleep: Sleep = time.sleep
) -> dict[str, str]:
    """Build the image of `root` and return image (by digest), digest, buildId and logUrl. Raises BuildError."""
    if context_hash(root) != request.context_hash:
        raise BuildError("the build context changed while `pulumi up` was at work; nothing was built. Run it again.")
    reach_directly(connection)
    object_name = _upload(request, connection, pack(root))
    client = _build_client(connection)
    finished = _run(client, request, object_name, sleep)
    if finished.status != _DONE.SUCCESS:
        raise BuildError(_failure(finished, request, connection))
    digest = finished.results.images[0].digest
    return {
        "image": f"{request.image}@{digest}",
        "digest": digest,
        "buildId": finished.id,
        "logUrl": finished.log_url,
    }


def build_spec(request: BuildRequest, object_name: str) -> cb.Build:
    """The build as Cloud Build is asked for it. What is listed in `images` is pushed, and its digest reported."""
    arguments = [f"--build-arg={name}={value}" for name, value in sorted(request.build_args.items())]
    arguments.append(f"--label=org.opencontainers.image.revision=context-{request.context_hash}")
    return cb.Build(
        source=cb.Source(storage_source=cb.StorageSource(bucket=request.source_bucket, object_=object_name)),
        steps=[
            cb.BuildStep(name="gcr.io/cloud-builders/docker", args=["build", f"--tag={request.tag}", *arguments, "."])
        ],
        images=[request.tag],
        service_account=request.build_account,
        timeout={"seconds": BUILD_TIMEOUT_S},
        # An own build account may not write to Cloud Build's default log bucket.
        options=cb.BuildOptions(logging=cb.BuildOptions.LoggingMode.CLOUD_LOGGING_ONLY),
        tags=["gpujob"],
    )


def _upload(request: BuildRequest, connection: Connection, archive: bytes) -> str:
    from google.cloud import storage

    parts = urlsplit(connection.storage_url)
    options = {"api_endpoint": f"{parts.scheme}://{parts.netloc}"} if parts.netloc else None
    credentials = connection.credentials(connection.storage_url)
    client = storage.Client(project=request.project, credentials=credentials, client_options=options)
    name = f"context/{request.context_hash}.tar.gz"
    blob = client.bucket(request.source_bucket).blob(name)
    # The name is the content's hash: what is there already is what would have been sent.
    with suppress(PreconditionFailed):
        blob.upload_from_string(archive, content_type="application/gzip", if_generation_match=0)
    return name


def _build_client(connection: Connection) -> cb.CloudBuildClient:
    credentials = connection.credentials(connection.build_url)
    parts = urlsplit(connection.build_url)
    if not parts.netloc:
        return cb.CloudBuildClient(credentials=credentials)
    from google.cloud.devtools.cloudbuild_v1.services.cloud_build.transports import CloudBuildRestTransport

    transport = CloudBuildRestTransport(host=parts.netloc, url_scheme=parts.scheme, credentials=credentials)
    return cb.CloudBuildClient(transport=transport)


def _run(client: cb.CloudBuildClient, request: BuildRequest, object_name: str, sleep: Sleep) -> cb.Build:
    """Start the build and follow it to its end; again where it only met a grant that was not yet in force."""
    for wait_s in (*FRESH_GRANT_WAITS_S, None):
        try:
            finished = _once(client, request, object_name, sleep)
        except GoogleAPICallError as error:
            fresh = isinstance(error, Forbidden) or "service account" in str(error).lower()
            if wait_s is None or not fresh:
                raise BuildError(f"Cloud Build did not take the build: {error.message}") from None
        else:
            if wait_s is None or finished.failure_info.type_ != cb.Build.FailureInfo.FailureType.FETCH_SOURCE_FAILED:
                return finished
        sleep(wait_s)
    raise AssertionError("the last round returns or raises")


def _once(client: cb.CloudBuildClient, request: BuildRequest, object_name: str, sleep: Sleep) -> cb.Build:
    parent = f"projects/{request.project}/locations/{request.region}"
    operation: Any = client.create_build(
        cb.CreateBuildRequest(parent=parent, project_id=request.project, build=build_spec(request, object_name))
    )
    build_id = str(operation.metadata.build.id)
    name = f"{parent}/builds/{build_id}"
    pause_s = 0.2
    while True:
        current = client.get_build(cb.GetBuildRequest(name=name, project_id=request.project, id=build_id))
        if current.status not in (_DONE.STATUS_UNKNOWN, _DONE.PENDING, _DONE.QUEUED, _DONE.WORKING):
            return current
        sleep(pause_s)
        pause_s = min(pause_s * 1.5, 5.0)


def _failure(finished: cb.Build, request: BuildRequest, connection: Connection) -> str:
    why = finished.failure_info.detail or finished.status_detail or "no reason given"
    lines = [
        f"build {finished.id} of {request.tag} ended as {finished.status.name}: {why}",
        f"log: {finished.log_url or 'no link'}",
        f"Its last lines ({LOG_TAIL_LINES} at most):",
        *(f"    {line}" for line in _log_tail(finished.id, request, connection)),
        "The job was not changed. Put the build right, then run `pulumi up` again.",
    ]
    return "\n".join(lines)


def _log_tail(build_id: str, request: BuildRequest, connection: Connection) -> list[str]:
    """The log's end, oldest first; if it cannot be read, why (which must not hide the failure itself)."""
    from google.cloud import logging

    base = connection.logging_url.rstrip("/").removesuffix("/v2")
    options = {"api_endpoint": base} if base else None
    credentials = connection.credentials(connection.logging_url)
    try:
        client = logging.Client(
            project=request.project, credentials=credentials, client_options=options, _use_grpc=not base
        )
        entries: Any = client.list_entries(
            filter_=f'resource.type="build" AND resource.labels.build_id="{build_id}"',
            order_by=logging.DESCENDING,
            max_results=LOG_TAIL_LINES,
        )
        lines = [str(entry.payload) for entry in entries]
    except Exception as error:
        return [f"(the log could not be read: {error})"]
    return list(reversed(lines)) or ["(the log is empty)"]
