"""The examples in fixtures/NAME.json: resources as plain data, and what the policy of that name says of each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policies.rules.rule import Resource

_FOLDER = Path(__file__).parent / "fixtures"


@dataclass(frozen=True, eq=False)
class Example:
    """One resource; it passes the policy where `violations` is empty."""

    policy: str
    case: str
    resource: Resource
    violations: tuple[str, ...]
    """What each message must contain, in order."""

    @property
    def title(self) -> str:
        return f"{self.policy}: {self.case}"


def examples() -> list[Example]:
    """Every example of every policy, in a fixed order."""
    return [
        _example(path.stem, entry) for path in sorted(_FOLDER.glob("*.json")) for entry in json.loads(path.read_text())
    ]


def _example(policy: str, entry: dict[str, Any]) -> Example:
    kind, stack = entry["type"], entry.get("stack", "dev")
    resource = Resource(
        type=kind,
        urn=f"urn:pulumi:{stack}::gpujob::{kind}::{entry['case']}",
        props=entry["props"],
        protect=entry.get("protect", False),
    )
    return Example(policy, entry["case"], resource, tuple(entry["violations"]))
