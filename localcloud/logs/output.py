"""What a container prints, as the log entries that Cloud Run makes of it."""

import json
from typing import cast

from localcloud.jsontypes import Json, obj, strings
from localcloud.logs.comparisons import SEVERITIES
from localcloud.logs.store import LogStore
from localcloud.resources import parse_timestamp, timestamp

_PREFIX = "logging.googleapis.com/"
MAX_LINE_BYTES = 256 * 1024
"""Cloud Logging's limit for one entry; longer lines arrive in pieces."""


class AttemptLog:
    """Writes the entries of one attempt of one task."""

    def __init__(self, logs: LogStore, execution: Json, location: str, index: int, attempt: int) -> None:
        self._logs = logs
        self._project = str(execution["name"]).split("/")[1]
        self._common: Json = {
            "resource": {
                "type": "cloud_run_job",
                "labels": {"job_name": execution["job"], "location": location, "project_id": self._project},
            },
            "labels": {
                **strings(execution.get("labels")),
                "run.googleapis.com/execution_name": str(execution["name"]).rsplit("/", 1)[-1],
                "run.googleapis.com/task_index": str(index),
                "run.googleapis.com/task_attempt": str(attempt),
            },
        }

    def line(self, stream: str, line: bytes) -> None:
        """One line of `stdout` or `stderr`: a JSON object becomes a jsonPayload, anything else a textPayload."""
        text = line.decode(errors="replace").rstrip("\r\n")
        if not text.strip():
            return
        self._write(f"run.googleapis.com%2F{stream}", _structured(text) or {"textPayload": text})

    def platform(self, message: str, severity: str = "WARNING") -> None:
        """One of the platform's own lines."""
        self._write("run.googleapis.com%2Fvarlog%2Fsystem", {"severity": severity, "textPayload": message})

    def _write(self, log: str, fields: Json) -> None:
        labels = {**strings(self._common["labels"]), **strings(fields.pop("labels", None))}
        entry = {**self._common, **fields, "labels": labels, "logName": f"projects/{self._project}/logs/{log}"}
        self._logs.append(self._project, entry)


def _structured(text: str) -> Json | None:
    """The entry's fields when the line is a JSON object: special fields are lifted out, the rest is the payload."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        parsed = json.loads(text)
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    payload = cast("Json", parsed)
    entry: Json = {}
    severity = str(payload.get("severity", "")).upper()
    if severity in SEVERITIES:
        del payload["severity"]
        entry["severity"] = severity
    for field, target in (("labels", "labels"), ("trace", "trace"), ("spanId", "spanId"), ("insertId", "insertId")):
        if _PREFIX + field in payload:
            entry[target] = payload.pop(_PREFIX + field)
    for field in ("operation", "sourceLocation"):
        if _PREFIX + field in payload:
            entry[field] = obj(payload.pop(_PREFIX + field))
    if isinstance(payload.get("time"), str):
        try:
            entry["timestamp"] = timestamp(parse_timestamp(payload["time"]))
        except ValueError:
            pass  # not a time: it stays in the payload, as on Cloud Run
        else:
            del payload["time"]
    entry["jsonPayload"] = payload
    return entry
