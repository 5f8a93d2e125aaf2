"""What a killed engine left in its state: creations without an end, and files that were cut off in the middle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The identifier under which an object of a fixed name can be imported, from the inputs of its pending creation.
# Grants and enabled services are not here: creating those a second time is the same as once.
IMPORT_IDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "gcp:serviceaccount/account:Account": lambda inputs: (
        f"projects/{inputs['project']}/serviceAccounts/"
        f"{inputs['accountId']}@{inputs['project']}.iam.gserviceaccount.com"
    ),
    "gcp:storage/bucket:Bucket": lambda inputs: f"{inputs['name']}",
    "gcp:artifactregistry/repository:Repository": lambda inputs: (
        f"projects/{inputs['project']}/locations/{inputs['location']}/repositories/{inputs['repositoryId']}"
    ),
    "gcp:cloudrunv2/job:Job": lambda inputs: (
        f"projects/{inputs['project']}/locations/{inputs['location']}/jobs/{inputs['name']}"
    ),
    "gcp:logging/metric:Metric": lambda inputs: f"{inputs['name']}",
}


@dataclass(frozen=True)
class PendingCreate:
    """A creation that the state does not know the end of."""

    urn: str
    type: str
    import_id: str | None
    """None where Google names it, or creating it again is harmless."""
    parent: str | None
    inputs: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.urn.rpartition("::")[2]


def pending_creates(state: Mapping[str, Any]) -> list[PendingCreate]:
    """The pending creations in an exported state."""
    found: list[PendingCreate] = []
    for operation in state["deployment"].get("pending_operations") or []:
        if operation["type"] != "creating":
            continue
        resource = operation["resource"]
        identify = IMPORT_IDS.get(resource["type"])
        inputs: Mapping[str, Any] = resource.get("inputs") or {}  # left out where there are none
        import_id = identify(inputs) if identify and inputs else None
        found.append(PendingCreate(resource["urn"], resource["type"], import_id, resource.get("parent"), inputs))
    return found


def remove_torn_side_files(folder: Path) -> list[Path]:
    """Delete the unreadable `.attrs` files of a backend in a folder; return their paths.

    The engine writes each state file whole (under another name, then renamed) but the content type beside it in place.
    A kill in the middle leaves an empty one, with which the state cannot be loaded ("failed to load checkpoint: EOF"),
    while without it, it can.
    """
    torn: list[Path] = []
    for path in sorted(folder.rglob("*.attrs")):
        try:
            json.loads(path.read_text())
        except ValueError:
            path.unlink()
            torn.append(path)
    return torn
