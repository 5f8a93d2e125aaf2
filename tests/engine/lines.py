"""Checkpoint lines for tests of the engine: small states, stores that fail on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from app.checkpoint import codec, reader, writer
from app.checkpoint.line import Line
from app.checkpoint.names import Attempt, CheckpointName
from app.checkpoint.resume import Resumer
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.medium import Medium
from app.checkpoint.writer import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from app.checkpoint.reader import Loaded
    from app.checkpoint.storage.store import Entry, Store, Written

ORIGIN = Origin(identity={"workload": "test"}, environment={})


def state(step: int) -> dict[str, Any]:
    return {"step": step, "w": np.arange(300, dtype=np.float32) + step, "b": np.full(7, step, dtype=np.int64)}


def attempt(store: Store, epoch: int, keep: int = 3) -> Line:
    """A line on which this epoch is claimed."""
    line = Line(store, Attempt(epoch), keep)
    store.publish(line.attempt.document, b"{}")
    return line


def of_any_state(root: Path) -> Line:
    """A line that asks nothing of a state and waits for nothing."""
    line = attempt(DirectoryStore(root), 1)
    line.check = lambda _any_state: None
    line.sleep = lambda _s: None
    return line


def commit(line: Line, step: int) -> CheckpointName:
    return line.commit(step, codec.encode(state(step)), ORIGIN)


def round_trip(store: Store, state: Any) -> Any:
    """What a checkpoint of this state gives back."""
    name = CheckpointName.of(attempt(store, 1).attempt, 1)
    writer.commit(store, name, codec.encode(state), ORIGIN)
    return reader.load(store, name).state


def resume(store: Store, *, ever_committed: bool = False) -> Loaded | None:
    return Resumer(store, "test", sleep=lambda _s: None).newest(ever_committed=ever_committed)


def steps(store: Store) -> list[int]:
    names = (
        CheckpointName.parse(entry.name[len("checkpoints/") : -len(".json")]) for entry in store.list("checkpoints/")
    )
    return sorted(name.step for name in names if name)


class Failing:
    """A store whose operations fail as told: `fail(operation, name)` may raise."""

    def __init__(self, root: Path, medium: Medium = Medium.DISK) -> None:
        self.inner = DirectoryStore(root, medium)
        self.fail = lambda _operation, _name: None

    def list(self, prefix: str) -> list[Entry]:
        self.fail("list", prefix)
        return self.inner.list(prefix)

    def open(self, name: str) -> BinaryIO:
        self.fail("open", name)
        return self.inner.open(name)

    def create(self, name: str, chunks: Iterable[memoryview]) -> Written:
        self.fail("create", name)
        return self.inner.create(name, chunks)

    def publish(self, name: str, content: bytes, last_look: Callable[[], None] | None = None) -> None:
        self.fail("publish", name)
        self.inner.publish(name, content, last_look)

    def replace(self, name: str, content: bytes) -> None:
        self.fail("replace", name)
        self.inner.replace(name, content)

    def delete(self, name: str) -> None:
        self.fail("delete", name)
        self.inner.delete(name)


def failing_on(operation: str, prefix: str, number: int, times: int):
    """A `fail` that raises OSError(number) the first `times` times."""
    left = [times]

    def fail(here: str, name: str) -> None:
        if here == operation and name.startswith(prefix) and left[0] > 0:
            left[0] -= 1
            raise OSError(number, "made to fail", name)

    return fail
