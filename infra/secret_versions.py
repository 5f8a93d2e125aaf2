"""A pinned version of a secret in Secret Manager, as a stack names it. Pure data."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PINNED = re.compile(
    r"projects/([a-z][a-z0-9-]{4,28}[a-z0-9]|[0-9]+)/secrets/([A-Za-z0-9_-]{1,255})/versions/([1-9][0-9]*)"
)


@dataclass(frozen=True)
class SecretVersion:
    """projects/P/secrets/S/versions/N"""

    project: str
    """Id or number."""
    secret: str
    version: str
    """A number, never `latest`."""

    @classmethod
    def parse(cls, reference: str) -> SecretVersion | None:
        """None where the text is not a pinned version."""
        match = _PINNED.fullmatch(reference)
        return cls(match[1], match[2], match[3]) if match else None

    def seen_from(self, project: str) -> str:
        """How a job in `project` names the secret: Cloud Run answers with the short name for its own project's."""
        return self.secret if self.project == project else f"projects/{self.project}/secrets/{self.secret}"
