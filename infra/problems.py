"""What is said of a setting that cannot work: the key, what is wrong, what is allowed, and the line that fixes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.settings import NAMESPACE, declared_keys, default_of


@dataclass(frozen=True)
class Problem:
    """One finding about one configuration key."""

    key: str
    """With its namespace: `gpujob:gpuType`, `gcp:project`."""
    what: str
    """What is wrong, with the value that was given."""
    allowed: str
    """What would be accepted, and why where that is not plain."""
    paste: str = ""
    """A line of Pulumi.<stack>.yaml, or a command, that puts it right."""

    def __str__(self) -> str:
        text = f"{self.key}: {self.what}\n    allowed: {self.allowed}"
        if not self.paste:
            return text
        where = "run" if self.paste.startswith("pulumi ") else "in Pulumi.<stack>.yaml, under config:"
        return f"{text}\n    {where}\n        " + self.paste.replace("\n", "\n        ")


class SettingsError(ValueError):
    """The configuration of this stack cannot work. Nothing was created or changed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = f"{len(self.problems)} setting{'s' if len(self.problems) > 1 else ''} of this stack cannot work"
        super().__init__("\n".join([f"{count}; nothing was created or changed.", *(f"  - {p}" for p in self.problems)]))


def problem_with(name: str, what: str, paste: str = "", allowed: str = "") -> Problem:
    """A finding about one of our own keys; what is allowed, and the default to paste, come from its declaration."""
    key_field = declared_keys()[name]
    line = paste or f"{NAMESPACE}:{name}: {_as_yaml(default_of(key_field))}"
    return Problem(f"{NAMESPACE}:{name}", what, allowed or str(key_field.metadata["allowed"]), line)


def _as_yaml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)
