"""Objects that Google names at creation, found again by what they say: a killed engine's state knows no name of them.

One that says all that a pending creation says, and that the state does not know, is the one that was made: its display
name, labels, and each query, filter and address, in which job and region stand. Another stack's says something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ops.google_errors import Asking
from ops.google_lists import listed
from ops.stack import StackOutputs, check_endpoint

_GOOGLE = "https://monitoring.googleapis.com/"
_ENDPOINT = "gcp:monitoringCustomEndpoint"


@dataclass(frozen=True)
class NamedKind:
    """How all objects of a type are listed."""

    path: str
    """Below the endpoint."""
    items: str
    remove: str
    """The command that deletes one."""


NAMED_KINDS: Mapping[str, NamedKind] = {
    "gcp:monitoring/alertPolicy:AlertPolicy": NamedKind(
        "v3/projects/{project}/alertPolicies", "alertPolicies", "gcloud monitoring policies delete {name}"
    ),
    "gcp:monitoring/notificationChannel:NotificationChannel": NamedKind(
        "v3/projects/{project}/notificationChannels",
        "notificationChannels",
        "gcloud beta monitoring channels delete {name}",
    ),
    "gcp:monitoring/dashboard:Dashboard": NamedKind(
        "v1/projects/{project}/dashboards", "dashboards", "gcloud monitoring dashboards delete {name}"
    ),
}


def candidates(
    type_: str, inputs: Mapping[str, Any], known: Iterable[str], config: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Objects in the project that say what `inputs` say, and are not among the `known` names; oldest first.

    Raises:
        OpsError: they could not be listed.
    """
    kind, project = NAMED_KINDS[type_], str(inputs["project"])
    base = str(config.get(_ENDPOINT) or "")
    if base:
        check_endpoint("monitoring", base)
    about = Asking(
        service="Cloud Monitoring",
        action=f"list {kind.items}",
        role="roles/monitoring.viewer",
        missing=f"There is no project {project}.",
        safe="Nothing was imported.",
    )
    outputs = StackOutputs(project, "", "", "", "", endpoints={"monitoring": base} if base else {})
    everything = listed(
        (base or _GOOGLE) + kind.path.format(project=project),
        kind.items,
        about,
        outputs,
        token=str(config.get("gcp:accessToken") or ""),
        safe="Nothing was imported.",
    )
    ids = {name.rpartition("/")[2] for name in known}  # before it stands the project, by id or by number
    return sorted(
        (one for one in everything if str(one["name"]).rpartition("/")[2] not in ids and says_all(inputs, one)),
        key=lambda one: str((one.get("creationRecord") or {}).get("mutateTime", "")),
    )


def says_all(inputs: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Whether every text of the inputs stands in the document, where the two call it the same."""
    return set(_texts(_said(inputs))) <= set(_texts(document))


def _said(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What the inputs make the object say: neither the project, nor what the engine keeps to itself."""
    said = {name: value for name, value in inputs.items() if name not in ("project", "__defaults", "deletionPolicy")}
    board = said.pop("dashboardJson", None)
    return {**said, **json.loads(board)} if board else said


def _texts(tree: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(name of the field, text) of every text in the tree. Numbers and zeros are spelled in too many ways."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            if name != "__defaults":
                yield from _texts(value, str(name))
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _texts(value, key)
    elif isinstance(tree, str):
        yield key, tree
