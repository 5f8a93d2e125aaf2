"""Checkpoint lines of one job, read from the bucket with Google's Cloud Storage client."""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ops.checkpoint_line import durable_from, line_prefix, newest_first
from ops.errors import OpsError
from ops.google_credentials import anonymous_if_local
from ops.google_errors import TIMEOUT_S, Asking, asking
from ops.model import Durable
from ops.stack import StackOutputs

if TYPE_CHECKING:
    from google.cloud.storage import Client

GOOGLE = "https://storage.googleapis.com"
READ_ONLY = "https://www.googleapis.com/auth/devstorage.read_only"


class BucketCheckpoints:
    """The `Checkpoints` of a deployed job."""

    def __init__(self, outputs: StackOutputs) -> None:
        self._outputs = outputs

    def durable(self, task: int, execution: str | None = None) -> Durable:
        # Progress is an extra to what Cloud Run says: an operator without access to the bucket still gets the rest.
        bucket, prefix = line_prefix(self._outputs.checkpoint_url, task)
        about = Asking(
            service="Cloud Storage",
            action=f"read the checkpoint line gs://{bucket}/{prefix}",
            role="roles/storage.objectViewer on the bucket",
            missing=f"There is no bucket {bucket}, though the stack exports it. "
            "`pulumi refresh` and then `pulumi up` make it again, empty.",
            safe="Checkpoints are untouched.",
        )
        try:
            with asking(about, self._outputs):
                listed = self._client.list_blobs(bucket, prefix=f"{prefix}ledger/", timeout=TIMEOUT_S)
                names = newest_first(cast("str", blob.name) for blob in listed)
                return durable_from(names, lambda name: self._read(bucket, name), execution)
        except OpsError as error:
            return Durable(None, known=False, reason=str(error))

    def _read(self, bucket: str, name: str) -> Mapping[str, Any] | None:
        from google.api_core.exceptions import NotFound

        try:
            document = json.loads(self._client.bucket(bucket).blob(name).download_as_bytes(timeout=TIMEOUT_S))
        except (NotFound, ValueError):  # rewritten this very moment, or half written when its attempt was killed
            return None
        return cast("Mapping[str, Any]", document) if isinstance(document, dict) else None

    @cached_property
    def _client(self) -> "Client":
        import google.auth
        from google.cloud.storage import Client

        url = self._outputs.endpoints.get("storage")
        if url is None:
            # Said outright, or a STORAGE_EMULATOR_HOST left over from the local cloud would answer for a real bucket.
            credentials, _ = google.auth.default(scopes=[READ_ONLY])
            return Client(
                project=self._outputs.project, credentials=credentials, client_options={"api_endpoint": GOOGLE}
            )
        # The client adds /storage/v1 itself.
        options = {"api_endpoint": url.rstrip("/").removesuffix("/storage/v1")}
        credentials = anonymous_if_local(url)
        return Client(project=self._outputs.project, credentials=credentials, client_options=options)
