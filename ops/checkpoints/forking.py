"""`gpujob checkpoints fork`: a new line that begins with a copy of a checkpoint, by the protocol of every commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ops.checkpoints.survey import Found
from ops.checkpoints.trouble import telling
from ops.checkpoints.verifying import progress
from ops.checkpoints.where import CLOUD, Place, store_at
from ops.errors import NotSucceededError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.checkpoint.manifest import Manifest, Shard
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.storage.store import Store
    from app.ledger import Ledger

FORKED_FROM = "forked_from"
"""In the environment of the new checkpoint's head: URL and name of the one that was copied."""


def fork(source: Place, each: Found, destination: str, say: Callable[[str], None]) -> None:
    """Raises OpsError and what storage and engine raise. A destination that was not completed is empty again."""
    from app.checkpoint.manifest import Damaged, Torn, Unsupported
    from app.contract import ExitCode, Reason

    _refuse_inside(source.url, destination)
    with telling(destination):
        store = _empty_store(destination)
        ledger = _claimed(store)
    try:
        name = _copied(source, each, store, ledger)
    except BaseException as error:
        _clear(store)
        if isinstance(error, Torn | Damaged | Unsupported):
            raise NotSucceededError(
                f"Checkpoint {each.name} of {source.url} cannot be forked: {error}. {destination} is empty again. Try "
                f"an older one: `gpujob checkpoints verify {source.url}` says which are sound."
            ) from error
        raise
    ledger.resumed(str(each.name), name.step)
    ledger.end(ExitCode.HANDED_OFF, Reason.HANDED_OFF, name.step)
    say(
        f"{destination} begins with checkpoint {name}, a copy of {each.name} with every byte verified. {source.url} "
        "was not changed. A job goes on from it when this is its line: CHECKPOINT_DIR/<job>-task-<index>."
    )


def _refuse_inside(source: str, destination: str) -> None:
    """Raises RefusedError: what lies in a line belongs to it, and its attempts list and sweep it."""
    if destination.startswith(CLOUD) or "://" in destination or source.startswith(CLOUD):
        inside = f"{destination.rstrip('/')}/".startswith(f"{source.rstrip('/')}/")
    else:
        inside = Path(destination).resolve().is_relative_to(Path(source).resolve())
    if inside:
        raise RefusedError(
            f"{destination} lies in the line {source} itself, and a fork begins a line of its own. Nothing was "
            "changed. Name a folder beside it."
        )


def _empty_store(destination: str) -> Store:
    """Raises RefusedError unless nothing is there."""
    if not destination.startswith(CLOUD) and "://" not in destination:
        Path(destination).mkdir(parents=True, exist_ok=True)
    store = store_at(destination.rstrip("/"))
    if found := store.list(""):
        raise RefusedError(
            f"{destination} is not empty (it holds {found[0].name}), and a fork begins a line of its own. Nothing was "
            "changed. Name a folder that is not there yet."
        )
    return store


def _claimed(store: Store) -> Ledger:
    from app.contract import Task
    from app.ledger import Ledger

    return Ledger.open(store, Task(Path(), job="fork"))


def _copied(source: Place, each: Found, store: Store, ledger: Ledger) -> CheckpointName:
    from app.checkpoint import writer
    from app.checkpoint.line import Line
    from app.checkpoint.reader import read_manifest

    manifest = read_manifest(source.store, each.name)
    head, table = manifest.head, _table(manifest)
    origin = writer.Origin(
        head.identity, {**head.environment, FORKED_FROM: f"{source.url}/{each.name.manifest}"}, str(each.name)
    )
    suffix = head.shards[0].name.rpartition(".")[2] if head.shards else ""

    def write(name: CheckpointName) -> None:
        with progress(head.size_bytes) as seen:
            contents = [_told(source.store, shard, seen) for shard in head.shards]
            written = writer.write_shards(store, name, contents, suffix)
        writer.publish(store, name, written, table, origin=origin, before_publish=lambda: None, files=head.files)

    return Line(store, ledger.attempt).commit_by(head.step, write)


def _told(store: Store, shard: Shard, seen: Callable[[int], None]) -> Iterator[memoryview]:
    """The shard's bytes; the copy is given up when their end does not prove them."""
    from app.checkpoint.shards import content

    for block in content.stream(store, shard):
        seen(len(block))
        yield block


def _table(manifest: Manifest) -> bytes:
    """As the format that is written today."""
    from app.checkpoint.trees.tree import table_of
    from app.checkpoint.verifying import checked_table

    if manifest.head.files is not None:
        table_of(manifest)
        return manifest.table
    return checked_table(manifest).encode()


def _clear(store: Store) -> None:
    """The destination was empty: what is there is what this command wrote."""
    for entry in store.list(""):
        store.delete(entry.name)
