"""A store in memory, for tests that read a line thousands of times: objects are `bytes` by name."""

from __future__ import annotations

import errno
import io
from typing import TYPE_CHECKING, BinaryIO

from app.checkpoint.storage.store import Entry, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class MemoryStore:
    """Change `objects` to damage them."""

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})

    def list(self, prefix: str) -> list[Entry]:
        return [Entry(name, len(self.objects[name]), 0.0) for name in sorted(self.objects) if name.startswith(prefix)]

    def open(self, name: str) -> BinaryIO:
        if name not in self.objects:
            raise FileNotFoundError(errno.ENOENT, "No such object", name)
        return io.BytesIO(self.objects[name])

    def create(self, name: str, chunks: Iterable[memoryview]) -> Written:
        self._put_new(name, b"".join(bytes(chunk) for chunk in chunks))
        return Written(len(self.objects[name]))

    def publish(self, name: str, content: bytes, last_look: Callable[[], None] | None = None) -> None:
        if last_look:
            last_look()
        self._put_new(name, content)

    def replace(self, name: str, content: bytes) -> None:
        self.objects[name] = content

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    def _put_new(self, name: str, content: bytes) -> None:
        if name in self.objects:
            raise FileExistsError(errno.EEXIST, "The object exists", name)
        self.objects[name] = content
