"""The heads of a line's manifests, each read once: which shards the checkpoints that are there need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.checkpoint import reader
from app.checkpoint.manifest import Damaged, Head, Torn, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.checkpoint.names import CheckpointName
    from app.checkpoint.storage.store import Store


@dataclass
class Heads:
    store: Store
    _known: dict[CheckpointName, Head] = field(default_factory=dict["CheckpointName", Head])
    """A manifest never changes once it was read whole."""

    def of(self, name: CheckpointName) -> Head | None:
        """None if the manifest is torn, damaged, of another format or gone. Raises OSError."""
        if name not in self._known:
            try:
                self._known[name] = reader.read_manifest(self.store, name).head
            except (Torn, Damaged, Unsupported, FileNotFoundError):
                return None
        return self._known[name]

    def learn(self, name: CheckpointName, head: Head) -> None:
        """It was just written or loaded."""
        self._known[name] = head

    def shards_of(self, present: Iterable[CheckpointName]) -> set[str] | None:
        """Names of every shard that one of them needs; None if one does not say. Raises OSError."""
        needed = set[str]()
        for name in present:
            head = self.of(name)
            if head is None:
                return None
            needed.update(shard.name for shard in head.shards)
        return needed

    def forget(self, names: Iterable[CheckpointName]) -> None:
        for name in names:
            self._known.pop(name, None)
