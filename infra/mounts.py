"""What else than checkpoints a task may see as a folder: buckets that it only reads. Pure data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ReadOnlyBucket:
    """One entry of `readOnlyBuckets`."""

    bucket: str
    """Name, without gs://. It exists already and stays when the stack goes."""
    mount_path: str
    """Where in the container."""
    folder: str = ""
    """Only this folder of it. Empty: all of it."""
