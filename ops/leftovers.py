"""`gpujob leftovers`: whether anything of a stack is still there after `pulumi destroy`. Only looks, never deletes.

A destroyed stack has no outputs, so the names come from its file, as `pulumi up` would take them. What bears them is
left over. What only bears the program's label may be another stack's, and is mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra.settings import APP_LABEL, NAMESPACE
from infra.stack_file import StackFileError, configuration, settings_in
from ops.errors import MisconfiguredError, NotSucceededError
from ops.kind_lists import all_of, endpoint_of
from ops.leftover_kinds import KINDS
from ops.stack import check_endpoint


def look_for_leftovers(stack_file: Path, say: Callable[[str], None]) -> None:
    """List what the stack would have made and say that nothing of it is left.

    Raises:
        NotSucceededError: something is left; the text lists it with the command that deletes each.
        MisconfiguredError: the stack's file does not say what to look for.
    """
    try:
        settings, config = settings_in(stack_file), configuration(stack_file)
    except StackFileError as error:
        raise MisconfiguredError(f"{error} Nothing was looked for.") from None
    _require_one_cloud({kind.endpoint: endpoint_of(kind, config) for kind in KINDS})
    left: list[str] = []
    others: list[str] = []
    for kind in KINDS:
        for document in all_of(kind, settings.project, settings.region, config, safe="Nothing was looked for."):
            name = kind.name_of(document)
            if _bears(name, kind.names(settings)):
                command = kind.remove.format(name=name, project=settings.project, region=settings.region)
                left.append(f"{kind.noun} {name}\n      {command}")
            elif _labels(document).get(APP_LABEL) == NAMESPACE:
                others.append(f"{kind.noun} {name}")
    if others:
        say(f"Not this stack's by name, but labelled {APP_LABEL}={NAMESPACE}: {', '.join(others)}.")
    where = f"project {settings.project}, region {settings.region}"
    if left:
        raise NotSucceededError(
            f"{len(left)} of this stack's resources are in {where}. Nothing was deleted.\n"
            + "\n".join(f"  - {one}" for one in left)
            + "\nIf the stack is meant to be there, all is well. If it was destroyed, look at each, then delete it."
        )
    nouns = ", ".join(kind.noun for kind in KINDS)
    say(f"Nothing of this stack is left in {where}. Looked for: {nouns}. Enabled APIs stay enabled.")


def _require_one_cloud(endpoints: Mapping[str, str]) -> None:
    """With only some of them half of the lists would come from another cloud."""
    absent = [name for name, url in endpoints.items() if not url]
    if absent and len(absent) < len(endpoints):
        raise MisconfiguredError(
            f"The stack's file has custom endpoints, but none for {', '.join(absent)}. Nothing was looked for."
        )
    for name, url in endpoints.items():
        if url:
            check_endpoint(name, url)


def _bears(name: str, ours: tuple[str, ...]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in ours)


def _labels(document: Mapping[str, Any]) -> Mapping[str, str]:
    return document.get("labels") or document.get("userLabels") or {}
