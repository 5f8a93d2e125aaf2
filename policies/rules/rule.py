"""What a rule is: which resources it looks at, what it finds wrong with one, how grave that is and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast


class Unknown(Enum):
    """Stands for a value that does not exist yet, such as the address of an account that a preview would create."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


class NotYetKnownError(Exception):
    """The rule needs a value that only the update will know. The engine asks again then, before anything is created."""


class Severity(Enum):
    """How bad it is to have what the rule forbids."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Level(Enum):
    """What a violation does: MANDATORY stops the preview or update, ADVISORY is only shown."""

    ADVISORY = "advisory"
    MANDATORY = "mandatory"


@dataclass(frozen=True)
class Option:
    """One thing about a rule that a team may set otherwise, by `--policy-pack-config FILE`."""

    name: str
    default: Any
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the value."""


@dataclass(frozen=True)
class Resource:
    """A resource as the program declares it; property names as on the wire (camelCase)."""

    type: str
    """Type token, such as gcp:storage/bucket:Bucket."""
    urn: str
    props: Mapping[str, Any]
    protect: bool = False
    """Whether the engine refuses to delete it."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values of the rule's options."""

    @property
    def stack(self) -> str:
        """Name of the stack, read from the URN: `urn:pulumi:STACK::PROJECT::TYPE::NAME`."""
        return self.urn.removeprefix("urn:pulumi:").split("::")[0]

    def get(self, path: str) -> Any:
        """The value at a dotted path, None where it is not set.

        Raises:
            NotYetKnownError: it, or something it is part of, is not known before the update.
        """
        return _walk(self.props, path.split("."))

    def items(self, path: str) -> Iterator[Any]:
        """The elements of the list at a dotted path, as `known` gives them; none where it is not set."""
        yield from known(self.get(path))


def read(value: Any, path: str) -> Any:
    """As `Resource.get`, of any nested mapping."""
    return _walk(value, path.split("."))


def known(values: Any) -> Iterator[Any]:
    """The known elements of a list; only then NotYetKnownError if there are others: they hide no violation."""
    elements = cast("Sequence[Any]", values) if isinstance(values, list | tuple) else ()
    yield from (element for element in elements if element is not UNKNOWN)
    if any(element is UNKNOWN for element in elements):
        raise NotYetKnownError("an element of a list")


def _walk(value: Any, names: Sequence[str]) -> Any:
    for name in names:
        value = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
        if value is UNKNOWN:
            raise NotYetKnownError(".".join(names))
    return value


Check = Callable[[Resource], Iterator[str]]
"""Yields one sentence for each thing that is wrong; each begins with the property that is."""


@dataclass(frozen=True)
class Rule:
    """A policy. Its `check` sees only resources whose type it covers."""

    name: str
    """What must hold, in kebab-case; shown by the engine beside each violation."""
    types: str
    """Regular expression that the whole type token matches."""
    severity: Severity
    level: Level
    description: str
    remediation: str
    """What to do, in the words of the program: added to every violation."""
    check: Check
    covers: tuple[str, ...] = ()
    """The same demand in public catalogues (CIS, Checkov, Trivy). Only where the catalogue means the same resources."""
    options: tuple[Option, ...] = ()

    def applies_to(self, token: str) -> bool:
        return re.fullmatch(self.types, token) is not None

    def violations(self, resource: Resource) -> Iterator[str]:
        """What is wrong with the resource, one message each.

        Raises:
            NotYetKnownError: after what could be found, if a value that is still unknown could hide more.
        """
        if not self.applies_to(resource.type):
            return
        defaults = {option.name: option.default for option in self.options}
        asked = Resource(
            resource.type, resource.urn, resource.props, resource.protect, {**defaults, **resource.options}
        )
        for found in self.check(asked):
            yield f"{found} {self.remediation}"
