"""Writing one checkpoint: shards first, each durable and summed, then the manifest that makes them count."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import crc32c

from app.checkpoint import epochs, safetensors_file
from app.checkpoint.manifest import Head, Manifest, Shard
from app.checkpoint.table import Place, Table
from app.clock import now_rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.checkpoint.codec import Blob, Encoded
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.store import Store

SHARD_BYTES = 256 * 2**20
PARALLEL = 4
"""A bucket mount stages a fifth open file in memory."""


@dataclass(frozen=True)
class Origin:
    """Whose state it is and where it was made; goes into the manifest's head."""

    identity: dict[str, Any]
    environment: dict[str, Any]
    resumed_from: str | None = None


def commit(
    store: Store,
    name: CheckpointName,
    state: Encoded,
    origin: Origin,
    before_publish: Callable[[], None] = lambda: None,
) -> Manifest:
    """Write `state` under `name`. Once this returns it is durable and found; if it raises, nothing was announced.

    `before_publish` is called when every byte is written and nothing is announced: what it raises ends the save.

    Raises OSError, and Superseded when a newer attempt works on the line.
    """
    groups = _into_shards(state.blobs)
    written = write_shards(store, name, [safetensors_file.chunks(group) for group in groups])
    table = _table(state, groups).encode()
    return publish(store, name, written, table, origin=origin, before_publish=before_publish)


@dataclass(frozen=True)
class WrittenShard:
    shard: Shard
    by_store: bool
    """The store's own checksum was there to agree."""


def write_shards(
    store: Store, name: CheckpointName, contents: Sequence[Iterator[memoryview]], suffix: str = "safetensors"
) -> list[WrittenShard]:
    """Each durable and summed, several at a time. Raises OSError, and whatever reading the contents raises."""
    named = [(store, name.shard(index, suffix), content) for index, content in enumerate(contents)]
    if len(named) < 2:
        return [_write_shard(*each) for each in named]
    with ThreadPoolExecutor(min(PARALLEL, len(named)), thread_name_prefix="shard") as pool:
        return [done.result() for done in [pool.submit(_write_shard, *each) for each in named]]


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
    """Announce what `written` holds; `files` of it if it is a directory tree. Raises OSError, Superseded."""
    head = Head(
        name=str(name),
        step=name.step,
        attempt=str(name.attempt),
        created_at=now_rfc3339(),
        identity=origin.identity,
        environment=origin.environment,
        resumed_from=origin.resumed_from,
        checked="size+crc32c" if written and all(each.by_store for each in written) else "size",
        shards=tuple(each.shard for each in written),
        files=files,
    )
    manifest = Manifest(head, table)

    def last_look() -> None:
        epochs.refuse_if_superseded(store, name.attempt)
        before_publish()

    try:
        store.publish(name.manifest, manifest.encode(), last_look)
    except FileNotFoundError:  # what was laid ready is gone: a newer attempt does that, after it announced itself
        epochs.refuse_if_superseded(store, name.attempt)
        raise
    return manifest


def _into_shards(blobs: Sequence[Blob]) -> list[list[Blob]]:
    """In order, each shard up to SHARD_BYTES (one larger tensor gets a shard of its own)."""
    groups: list[list[Blob]] = []
    room = 0
    for blob in blobs:
        if not groups or blob.size_bytes > room:
            groups.append([])
            room = SHARD_BYTES
        groups[-1].append(blob)
        room -= blob.size_bytes
    return groups


def _write_shard(store: Store, name: str, content: Iterator[memoryview]) -> WrittenShard:
    checksum = 0

    def summed() -> Iterator[memoryview]:
        nonlocal checksum
        for chunk in content:
            checksum = crc32c.crc32c(chunk, checksum)
            yield chunk

    stored = store.create(name, summed())
    shard = Shard(name, stored.size_bytes, f"{checksum:08x}")
    if stored.crc32c not in (None, shard.crc32c):
        raise OSError(errno.EIO, f"crc32c {shard.crc32c} was written but the store holds {stored.crc32c}", name)
    return WrittenShard(shard, stored.crc32c is not None)


def _table(state: Encoded, groups: Sequence[Sequence[Blob]]) -> Table:
    return Table(
        state.tree,
        [
            Place(blob.path, blob.kind, blob.dtype, blob.shape, shard, begin)
            for shard, group in enumerate(groups)
            for blob, begin in zip(group, safetensors_file.layout(group), strict=True)
        ],
    )
