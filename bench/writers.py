"""Two ways to write a snapshot beside the training: by a thread of its process, by another process over shared memory.

All else is the same: the state is copied into staging and encoded by the loop, one stream writes from where it lies.
"""

from __future__ import annotations

import mmap
import os
import queue
import threading
from dataclasses import replace
from itertools import accumulate
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any, Protocol

import torch

from app.checkpoint import codec
from app.checkpoint.shards.layout import members_of
from app.loop.staging import Staging, huge_pages
from bench.engine import EngineLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.checkpoint.codec import Encoded
    from bench.states import Training


class Writer(Protocol):
    def begin(self, step: int, tree: Any) -> None:
        """Write what lies in staging, with this JSON; returns at once."""
        ...

    def wait(self) -> None:
        """Until it is durable. Raises RuntimeError if it failed."""
        ...

    def close(self) -> None: ...


class Beside:
    """Saves of one training, eager: copied and encoded by the loop, written by `make`'s writer."""

    def __init__(
        self, training: Training, root: Path, make: Callable[[EngineLine, Encoded], Writer], staging: Staging
    ) -> None:
        self._training, self._root, self._staging, self._step = training, root, staging, 0
        encoded = codec.encode(training.state())
        self._views = staging.views([blob.value for blob in encoded.blobs], lambda: _in_the_file(encoded))
        blobs = tuple(blob.of(view) for blob, view in zip(encoded.blobs, self._views, strict=True))
        self._writer = make(EngineLine(root), replace(encoded, blobs=blobs, is_own=True))

    def begin(self) -> None:
        self._step += 1
        encoded = codec.encode(self._training.state())
        with torch.no_grad():
            torch._foreach_copy_(self._views, [blob.value for blob in encoded.blobs])
        self._writer.begin(self._step, encoded.tree)

    def wait(self) -> None:
        self._writer.wait()

    def forget(self) -> None:
        """What was written."""
        for shard in self._root.rglob("*.safetensors"):
            shard.unlink()

    def close(self) -> None:
        self._writer.close()


class ThreadWriter:
    def __init__(self, line: EngineLine, encoded: Encoded) -> None:
        self._line, self._encoded = line, encoded
        self._given = queue.SimpleQueue[tuple[int, Any] | None]()
        self._done = queue.SimpleQueue[str]()
        threading.Thread(target=self._run, name="writer", daemon=True).start()

    def begin(self, step: int, tree: Any) -> None:
        self._given.put((step, tree))

    def wait(self) -> None:
        _succeeded(self._done.get())

    def close(self) -> None:
        self._given.put(None)

    def _run(self) -> None:
        while given := self._given.get():
            self._done.put(_written(self._line, self._encoded, *given))


class ProcessWriter:
    """Forked with its views of the staging: nothing but the JSON passes between the two."""

    def __init__(self, line: EngineLine, encoded: Encoded) -> None:
        self._here, there = Pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                self._here.close()
                while given := there.recv():
                    there.send(_written(line, encoded, *given))
            finally:
                os._exit(0)
        there.close()

    def begin(self, step: int, tree: Any) -> None:
        self._here.send((step, tree))

    def wait(self) -> None:
        _succeeded(self._here.recv())

    def close(self) -> None:
        self._here.send(None)
        os.waitpid(self._child, 0)


def by_a_thread(training: Training, root: Path) -> Beside:
    return Beside(training, root, ThreadWriter, Staging(huge_pages))


def by_a_process(training: Training, root: Path) -> Beside:
    return Beside(training, root, ProcessWriter, Staging(_shared))


def _in_the_file(encoded: Encoded) -> Iterator[tuple[int, int]]:
    """Blobs in the order of their shard, and how many bytes are before each."""
    sizes = [blob.size_bytes for blob in encoded.blobs]
    for members, _frozen in members_of(sizes, encoded.frozen):
        yield from zip(members, accumulate([sizes[index] for index in members], initial=0), strict=False)


def _shared(size_bytes: int) -> torch.Tensor:
    """In small pages: most systems have no huge ones for shared memory (shmem_enabled)."""
    return torch.frombuffer(mmap.mmap(-1, size_bytes), dtype=torch.uint8).zero_()


def _written(line: EngineLine, encoded: Encoded, step: int, tree: Any) -> str:
    """What went wrong, or nothing."""
    try:
        line.save_encoded(step, replace(encoded, tree=tree), streams=1)
    except Exception as error:
        return repr(error)
    return ""


def _succeeded(told: str) -> None:
    if told:
        raise RuntimeError(told)
