"""What the movers have in common: staging that is used again, and how fast the last copy of some size was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.loop.staging import Order, Staging

ASSUMED_BYTES_PER_S = 4e9
"""Of a copy, before one was measured."""
TELLING_BYTES = 2**20
"""The time of smaller copies says nothing about large ones."""


class StagedMover:
    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._bytes_per_s = ASSUMED_BYTES_PER_S

    def new_bytes(self, values: Sequence[Any], order: Order | None = None) -> int:
        return self._staging.new_bytes(values, order)

    def stage(self, values: Sequence[Any], order: Order | None = None) -> Sequence[Any]:
        return self._staging.views(values, order)

    def expected_s(self, size_bytes: int) -> float:
        return size_bytes / self._bytes_per_s

    def _took(self, size_bytes: int, seconds: float) -> None:
        """A copy of at least TELLING_BYTES did."""
        self._bytes_per_s = size_bytes / max(seconds, 1e-9)
