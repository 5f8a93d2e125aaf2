"""Engines spoiled on purpose, each against one promise: a sweep that finds none of them proves nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.checkpoint.storage.directory import DirectoryStore
from app.loop import rng


def manifest_before_bytes() -> None:
    """Half of a shard is written after the manifest that names it."""
    create, publish = DirectoryStore.create, DirectoryStore.publish
    owed: list[tuple[object, bytes]] = []

    def create_half(self: DirectoryStore, name, chunks):
        written = create(self, name, chunks)
        path = self.root / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        owed.append((path, whole))
        return written

    def publish_and_pay(self: DirectoryStore, name, *more) -> None:
        publish(self, name, *more)
        while name.startswith("checkpoints/") and owed:
            path, whole = owed.pop()
            path.write_bytes(whole)  # type: ignore[attr-defined]

    DirectoryStore.create, DirectoryStore.publish = create_half, publish_and_pay  # type: ignore[method-assign]


def shards_pruned_before_their_manifest() -> None:
    delete = DirectoryStore.delete

    def delete_shards_first(self: DirectoryStore, name: str) -> None:
        if name.startswith("checkpoints/"):
            for entry in self.list(f"shards/{name.removeprefix('checkpoints/').removesuffix('.json')}/"):
                delete(self, entry.name)
        delete(self, name)

    DirectoryStore.delete = delete_shards_first  # type: ignore[method-assign]


def newest_overlooked() -> None:
    """The attempt that resumes does not see the newest manifest."""
    listed = DirectoryStore.list

    def all_but_the_newest(self: DirectoryStore, prefix: str):
        found = listed(self, prefix)
        if prefix == "checkpoints/" and threading.current_thread().name != "saver" and len(found) > 1:
            return sorted(found, key=lambda entry: entry.name)[:-1]
        return found

    DirectoryStore.list = all_but_the_newest  # type: ignore[method-assign]


def generators_not_restored() -> None:
    rng.restore = lambda _saved: None


def pruned_too_early() -> None:
    """One verified checkpoint is left of the two that are promised."""
    publish = DirectoryStore.publish

    def publish_alone(self: DirectoryStore, name: str, *more) -> None:
        before = self.list("checkpoints/") if name.startswith("checkpoints/") else []
        publish(self, name, *more)
        for entry in before:
            self.delete(entry.name)

    DirectoryStore.publish = publish_alone  # type: ignore[method-assign]


ALL: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        manifest_before_bytes,
        shards_pruned_before_their_manifest,
        newest_overlooked,
        generators_not_restored,
        pruned_too_early,
    )
}
