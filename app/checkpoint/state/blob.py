"""What the bytes of a state are: one Blob a tensor or array, and a state as JSON plus blobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


class Unsavable(TypeError):  # noqa: N818
    """A value that the format has no safe form for; the message gives its path in the state's tree."""


class Undecodable(Exception):  # noqa: N818
    """JSON that is not this format's."""


@dataclass(slots=True, eq=False)
class Blob:
    """The bytes of one tensor or array, and what they mean. Nobody changes one; frozen it would cost 0.5 us more."""

    path: str
    """Where it was found first in the tree, e.g. `model/wte.weight`; no other blob of the state has the same."""
    kind: str
    """`tensor` (torch) or `array` (numpy)."""
    dtype: str
    """`bfloat16`, `int64`, ... as torch or numpy spells it."""
    shape: tuple[int, ...]
    value: Any
    """The tensor or array itself; its bytes are taken when it is written (shards/blocks.py)."""

    @property
    def size_bytes(self) -> int:
        return int(self.value.nbytes)

    def of(self, value: Any) -> Blob:
        """The same of another value."""
        return Blob(self.path, self.kind, self.dtype, self.shape, value)

    def copied(self) -> Blob:
        """The same with bytes of its own, so that training may go on while they are written."""
        value = self.value
        return self.of(value.copy() if self.kind == "array" else value.detach().to("cpu", copy=True))


@dataclass(frozen=True)
class Encoded:
    """A state as JSON plus blobs."""

    tree: Any
    blobs: tuple[Blob, ...]
    frozen: frozenset[int] = frozenset()
    """Indices of blobs that the program believes will not change, such as weights that nothing trains."""
    is_own: bool = False
    """Whether only the save has its blobs' memory, so that what is read twice is the same twice."""

    @property
    def size_bytes(self) -> int:
        return sum(blob.size_bytes for blob in self.blobs)

    def copied(self) -> Encoded:
        return replace(self, blobs=tuple(blob.copied() for blob in self.blobs), is_own=True)
