"""Log lines of one job through Google's Cloud Logging client."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ops.google_credentials import anonymous_if_local
from ops.google_errors import Asking, asking
from ops.model import LogLine
from ops.stack import StackOutputs

if TYPE_CHECKING:
    from google.cloud.logging import Client

LABEL = "run.googleapis.com/"
PAGE = 1000


class CloudLogging:
    """The `Logs` of a deployed job."""

    def __init__(self, outputs: StackOutputs) -> None:
        self._outputs = outputs

    def lines(self, execution: str, since: datetime) -> Iterator[LogLine]:
        with asking(self._about(execution), self._outputs):
            entries = iter(
                self._client.list_entries(
                    filter_=self._filter(execution, since), order_by="timestamp asc", page_size=PAGE
                )
            )
        while True:
            with asking(self._about(execution), self._outputs):
                entry = next(entries, None)
            if entry is None:
                return
            yield line_from(entry)

    def _filter(self, execution: str, since: datetime) -> str:
        # Without a timestamp of ours the client asks for the last 24 hours only.
        stamp = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return " AND ".join(
            (
                'resource.type="cloud_run_job"',
                f'resource.labels.job_name="{self._outputs.job_name}"',
                f'resource.labels.location="{self._outputs.region}"',
                f'labels."{LABEL}execution_name"="{execution}"',
                f'timestamp>="{stamp}"',
            )
        )

    def _about(self, execution: str) -> Asking:
        return Asking(
            service="Cloud Logging",
            action=f"read the log of execution {execution}",
            role="roles/logging.viewer",
            missing=f"Cloud Logging knows no project {self._outputs.project}.",
        )

    @cached_property
    def _client(self) -> "Client":
        from google.cloud.logging import Client

        url = self._outputs.endpoints.get("logging")
        if url is None:
            return Client(project=self._outputs.project, _use_grpc=False)
        # The client adds the version itself.
        options = {"api_endpoint": url.rstrip("/").removesuffix("/v2")}
        credentials = anonymous_if_local(url)
        return Client(project=self._outputs.project, credentials=credentials, _use_grpc=False, client_options=options)


def line_from(entry: Any) -> LogLine:
    """From google.cloud.logging's LogEntry, TextEntry or StructEntry."""
    labels = cast("dict[str, str]", entry.labels or {})
    return LogLine(
        insert_id=entry.insert_id or "",
        log_name=entry.log_name or "",
        timestamp=(entry.timestamp or datetime.fromtimestamp(0, UTC)).astimezone(UTC),
        severity=entry.severity or "DEFAULT",
        task=labels.get(f"{LABEL}task_index", ""),
        attempt=labels.get(f"{LABEL}task_attempt", ""),
        message=_message(entry.payload),
    )


def _message(payload: Any) -> str:
    if payload is None:
        return ""
    if isinstance(payload, dict):
        message = cast("dict[str, Any]", payload).get("message")
        return message if isinstance(message, str) else json.dumps(payload, sort_keys=True, default=str)
    return str(payload)
