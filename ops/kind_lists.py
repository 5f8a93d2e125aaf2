"""All objects of a kind that the program makes, asked of Google Cloud or of what stands in for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ops.google_errors import Asking
from ops.google_lists import listed
from ops.leftover_kinds import Kind
from ops.stack import StackOutputs, check_endpoint


def endpoint_of(kind: Kind, config: Mapping[str, Any]) -> str:
    """What a stack's file puts in place of Google's own; empty where it leaves that."""
    return str(config.get(f"gcp:{kind.endpoint}CustomEndpoint") or "")


def all_of(kind: Kind, project: str, region: str, config: Mapping[str, Any], *, safe: str) -> Iterator[dict[str, Any]]:
    """Whosever they are. `safe` says what was not done where they cannot be listed.

    Raises:
        OpsError: they could not be listed, or the endpoint in `config` is in plain http elsewhere.
    """
    base = endpoint_of(kind, config)
    if base:
        check_endpoint(kind.endpoint, base)
    about = Asking(
        service=kind.service,
        action=f"list what there is of kind {kind.noun}",
        role=kind.role,
        missing=f"There is no project {project}, or no such list in it.",
        safe=safe,
    )
    outputs = StackOutputs(project, region, "", "", "", endpoints={kind.endpoint: base} if base else {})
    url = (base or kind.google) + kind.path.format(project=project, region=region)
    return listed(url, kind.items, about, outputs, token=str(config.get("gcp:accessToken") or ""), safe=safe)
