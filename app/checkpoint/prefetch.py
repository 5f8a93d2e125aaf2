"""The newest checkpoint's bytes, read and summed while torch is imported and the model is built. Needs no torch.

Nothing is decided here: a restore takes what is ready in place of reading it again, shard by shard, and reads the rest.
Whatever goes wrong is forgotten, because the ordinary reading finds it too and says what it means. The threads are
daemons, so no end of the process waits for them, and memory is only taken where there is plenty.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

import crc32c

from app import logs
from app.checkpoint import quarantine, reader
from app.checkpoint.host_memory import available_bytes
from app.checkpoint.manifest import Shard, Torn
from app.checkpoint.names import CHECKPOINTS, checkpoints_among
from app.checkpoint.shards import pages
from app.checkpoint.shards.shard_reading import opened, read_exactly, refuse_more, refuse_other_bytes
from app.checkpoint.shards.stripes import threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap

    from app.checkpoint.manifest import Head
    from app.checkpoint.storage.store import Store

PIECE_BYTES = 32 * 2**20
"""Read at a time. After each the thread waits for the interpreter, which an import may hold for milliseconds: that
costs more than summing bytes that have left the core's cache."""
SPARE_BYTES = 2**29
"""Left alone, besides room for the state once more: the program's own tensors, into which a part is copied."""


class _Is(Enum):
    WAITING = "waiting"
    BEING_READ = "being read"
    READY = "ready"
    GONE = "gone"
    """Taken, or not worth waiting for."""


class _Room:
    """One shard."""

    def __init__(self) -> None:
        self.state = _Is.WAITING
        self.memory: mmap | None = None


class Prefetch:
    """Begins at once. `take` may be called from several threads."""

    def __init__(self, store: Store, available: Callable[[], int | None] = available_bytes) -> None:
        self._store = store
        self._available = available
        self._changed = threading.Condition()
        self._chosen = False
        self._dropped = False
        self._rooms = dict[Shard, _Room]()
        threading.Thread(target=self._choose, name="prefetch", daemon=True).start()

    def take(self, shard: Shard) -> mmap | None:
        """The whole file, verified, once; None when it must be read. Waits for a shard that is just being read."""
        with self._changed:
            self._changed.wait_for(lambda: self._chosen or self._dropped)
            room = self._rooms.get(shard)
            if room is None:
                return None
            if room.state is _Is.WAITING:
                room.state = _Is.GONE
            self._changed.wait_for(lambda: room.state is not _Is.BEING_READ)
            memory, room.memory, room.state = room.memory, None, _Is.GONE
            return memory

    def drop(self) -> None:
        """Free what nobody took, and read no more."""
        with self._changed:
            self._dropped = True
            for room in self._rooms.values():
                room.memory = None
            self._changed.notify_all()

    def _choose(self) -> None:
        head = None
        with suppress(Exception):
            head = self._newest()
        with self._changed:
            if head is not None and self._fits(head):
                self._rooms = {shard: _Room() for shard in head.shards}
            self._chosen = True
            self._changed.notify_all()
        helpers = min(len(self._rooms), max(1, threads() - 1)) - 1  # one core is left to Python's imports
        for _ in range(helpers):
            threading.Thread(target=self._read_all, name="prefetch", daemon=True).start()
        self._read_all()

    def _newest(self) -> Head | None:
        """Of the newest checkpoint that is committed and in no quarantine."""
        names = set(checkpoints_among(self._store.list(CHECKPOINTS)))
        for name in sorted(names - quarantine.recorded(self._store), reverse=True):
            with suppress(Torn):
                return reader.read_manifest(self._store, name).head
        return None

    def _fits(self, head: Head) -> bool:
        left = self._available()
        if left is None or head.files is not None or not head.shards:
            return False
        if left < 2 * head.size_bytes + SPARE_BYTES:
            logs.info(
                f"Checkpoint {head.name} is not read ahead: {left / 2**30:.1f} GiB of memory are left, and it has "
                f"{head.size_bytes / 2**30:.1f} GiB."
            )
            return False
        return True

    def _read_all(self) -> None:
        for shard, room in self._rooms.items():
            with self._changed:
                if self._dropped:
                    return
                if room.state is not _Is.WAITING:
                    continue
                room.state = _Is.BEING_READ
            memory = None
            with suppress(Exception):
                memory = self._read(shard)
            with self._changed:
                room.state = _Is.GONE if memory is None else _Is.READY
                room.memory = None if self._dropped else memory
                self._changed.notify_all()

    def _read(self, shard: Shard) -> mmap | None:
        """Verified; None when it is not wanted any more. Raises Damaged, OSError, MemoryError."""
        memory = pages.fresh_in_small_pages(shard.size_bytes)
        checksum = 0
        with opened(self._store, shard) as file, memoryview(memory) as whole:
            for begin in range(0, shard.size_bytes, PIECE_BYTES):
                if self._dropped:
                    return None
                piece = whole[begin : min(begin + PIECE_BYTES, shard.size_bytes)]
                read_exactly(file, piece, shard)
                checksum = crc32c.crc32c(piece, checksum)
            refuse_more(file, shard)
        refuse_other_bytes(shard, checksum)
        return memory
