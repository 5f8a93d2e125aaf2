"""Writing one checkpoint: shards first, each durable and summed, then the manifest that makes them count."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import crc32c

from app.checkpoint import collector, epochs
from app.checkpoint.codec import Unsavable
from app.checkpoint.manifest import Head, Manifest, Shard
from app.checkpoint.shards import blocks, frozen
from app.checkpoint.shards.frozen import BY_STORE, SIZE_ONLY, Known, Vanished, WrittenShard
from app.checkpoint.shards.layout import SHARD_BYTES, Layout, ShardPlan, blobs_of, layout
from app.checkpoint.storage.store import MANIFEST_BYTES, PARALLEL
from app.checkpoint.table import join
from app.checkpoint.workers import at_once
from app.clock import now_rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.checkpoint.codec import Encoded
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.storage.store import Store


@dataclass(frozen=True)
class Origin:
    """Whose state it is and where it was made; goes into the manifest's head."""

    identity: dict[str, Any]
    environment: dict[str, Any]
    resumed_from: str | None = None


@dataclass
class Kept:
    """What a line's saves leave for the next one."""

    layout: Layout | None = None
    known: Known = field(default_factory=Known)


def commit(
    store: Store,
    name: CheckpointName,
    state: Encoded,
    origin: Origin,
    before_publish: Callable[[], None] = lambda: None,
    *,
    kept: Kept | None = None,
    shard_bytes: int | None = None,
    streams: int = PARALLEL,
) -> Manifest:
    """Write `state` under `name`. Once this returns it is durable and found; if it raises, nothing was announced.

    `streams`: so many shards are written at once.
    `before_publish` is called when every byte is written and nothing is announced: what it raises ends the save.

    Raises OSError, and Superseded when a newer attempt works on the line.
    """
    kept = kept or Kept()
    with collector.resting():
        kept.layout = plan = layout(state, kept.layout, shard_bytes or SHARD_BYTES)
    table = cache(partial(_table, state, plan))
    done = dict[int, WrittenShard]()
    while True:
        missing = [index for index in range(len(plan.shards)) if index not in done]
        images = [(name.shard(index), plan.shards[index]) for index in missing]
        writing = [partial(_write_or_refer, store, *image, state, kept.known) for image in images]
        shards = at_once("shard", streams, writing, meanwhile=table)
        done |= dict(zip(missing, shards, strict=True))
        referred = [each.shard for each in done.values() if not each.shard.name.startswith(name.shards)]
        look = partial(frozen.look, store, referred)
        written = [done[index] for index in range(len(plan.shards))]
        try:
            manifest = publish(store, name, written, table(), origin=origin, before_publish=_both(look, before_publish))
        except Vanished as gone:
            kept.known.forget(gone.names)
            done = {index: each for index, each in done.items() if each.shard.name not in gone.names}
            continue
        try:
            look()
        except Vanished as gone:
            kept.known.forget(gone.names)
            store.delete(name.manifest)
            raise frozen.vanished_after_all(name.manifest, gone) from gone
        kept.known.learn(manifest.head)
        return manifest


def write_shards(
    store: Store, name: CheckpointName, contents: Sequence[Iterator[memoryview]], suffix: str = "safetensors"
) -> list[WrittenShard]:
    """Each durable and summed, several at a time. Raises OSError, and whatever reading the contents raises."""
    writing = [partial(_write_shard, store, name.shard(index, suffix), each) for index, each in enumerate(contents)]
    return at_once("shard", PARALLEL, writing)


def publish(
    store: Store,
    name: CheckpointName,
    written: Sequence[WrittenShard],
    table: bytes,
    *,
    origin: Origin,
    before_publish: Callable[[], None],
    files: int | None = None,
) -> Manifest:
    """Announce what `written` holds; `files` of it if it is a directory tree. Raises OSError, Superseded, Unsavable."""
    head = Head(
        name=str(name),
        step=name.step,
        attempt=str(name.attempt),
        created_at=now_rfc3339(),
        identity=origin.identity,
        environment=origin.environment,
        resumed_from=origin.resumed_from,
        checked=BY_STORE if written and all(each.by_store for each in written) else SIZE_ONLY,
        shards=tuple(each.shard for each in written),
        files=files,
    )
    manifest = Manifest(head, table)
    content = manifest.encode()
    if len(content) > MANIFEST_BYTES:
        raise Unsavable(
            f"the state: its manifest would have {len(content):,} bytes, and none is read that has more than "
            f"{MANIFEST_BYTES:,}. Give the session fewer values: large lists of numbers as one tensor each."
        )

    def last_look() -> None:
        epochs.refuse_if_superseded(store, name.attempt)
        before_publish()

    try:
        store.publish(name.manifest, content, last_look)
    except FileNotFoundError:  # what was laid ready is gone: a newer attempt does that, after it announced itself
        epochs.refuse_if_superseded(store, name.attempt)
        raise
    return manifest


def _table(state: Encoded, plan: Layout) -> bytes:
    with collector.resting():
        return join(state.tree, plan.columns)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


def _write_or_refer(store: Store, name: str, plan: ShardPlan, state: Encoded, known: Known) -> WrittenShard:
    blobs = blobs_of(plan, state)
    if plan.frozen and plan.size_bytes in known.sizes():
        checksum = 0
        for chunk in blocks.stream(plan.header, blobs, in_place=state.is_own):
            checksum = crc32c.crc32c(chunk, checksum)
        if found := known.find(plan.size_bytes, f"{checksum:08x}"):
            return found
    return _write_shard(store, name, blocks.stream(plan.header, blobs, in_place=state.is_own))


def _write_shard(store: Store, name: str, content: Iterator[memoryview]) -> WrittenShard:
    checksum = size_bytes = 0

    def summed() -> Iterator[memoryview]:
        nonlocal checksum, size_bytes
        for chunk in content:
            checksum = crc32c.crc32c(chunk, checksum)
            size_bytes += chunk.nbytes
            yield chunk

    stored = store.create(name, summed())
    if stored.size_bytes != size_bytes:
        raise OSError(errno.EIO, f"{size_bytes} bytes were written but the store holds {stored.size_bytes}", name)
    shard = Shard(name, size_bytes, f"{checksum:08x}")
    if stored.crc32c not in (None, shard.crc32c):
        raise OSError(errno.EIO, f"crc32c {shard.crc32c} was written but the store holds {stored.crc32c}", name)
    return WrittenShard(shard, stored.crc32c is not None)
