"""Reading one checkpoint: nothing of it is believed before its checksum matched.

Bytes go from the store straight to where they belong: into existing tensors which the caller names, or into fresh
memory over which the tensors are then laid. Large files are read by several threads.
"""

from __future__ import annotations

import errno
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from app.checkpoint import codec, collector
from app.checkpoint.manifest import Damaged, Head, Manifest
from app.checkpoint.names import CHECKPOINTS, checkpoints_among
from app.checkpoint.shards import stripes, values
from app.checkpoint.shards.shard_plan import Extent
from app.checkpoint.storage.patience import MISPLACED
from app.checkpoint.storage.store import TooLarge, read
from app.checkpoint.table import Table
from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    import torch

    from app.checkpoint.names import CheckpointName
    from app.checkpoint.shards.stripes import Ahead
    from app.checkpoint.storage.store import Store

    Into = Callable[[Head, Table], Mapping[str, torch.Tensor]]
    """Existing tensors by path in the state, to be filled; called when the manifest is verified and before any other
    byte is read. May raise Refusal. A tensor that does not lie in host memory as the bytes do is left alone."""

T = TypeVar("T")

NO_OBJECT = {errno.ENOENT, *MISPLACED}
"""How a store says that there is no such object, or something of another kind in its place."""


@dataclass(frozen=True)
class Loaded:
    """A verified checkpoint: the tree that was given to `encode`, tensors in host memory."""

    name: CheckpointName
    head: Head
    state: Any


def load(store: Store, name: CheckpointName, into: Into | None = None, ahead: Ahead | None = None) -> Loaded:
    """Raises Torn, Damaged, Unsupported (manifest.py), FileNotFoundError for what vanished, OSError for the rest.

    And Refusal for a checkpoint that is a directory tree, and what `into` raises. If it raises after `into` returned,
    the tensors that `into` gave hold any bytes: they must be loaded again, or not be used.
    """
    with collector.resting():
        return _load(store, name, into, ahead)


def _load(store: Store, name: CheckpointName, into: Into | None, ahead: Ahead | None) -> Loaded:
    manifest = read_manifest(store, name)
    head = manifest.head
    if head.files is not None:
        raise Refusal(
            f"Checkpoint {name} is a directory tree of {head.files} files, not the state of a session. "
            "Nothing was changed. Get it with restore_tree, or give the session another CHECKPOINT_DIR or job name."
        )
    table, extents = sensibly(lambda: understood(manifest))
    own = into(head, table) if into else {}
    targets = {
        row: target
        for row, place in enumerate(table.places if own else ())
        if (target := own.get(place.path)) is not None and values.can_be_filled(target, place)
    }
    homes = stripes.read_all(store, head.shards, extents, targets, ahead)
    given = {row: target.detach() for row, target in targets.items()}
    found = sensibly(lambda: values.Found(table.places, homes, given))
    return Loaded(name, head, sensibly(lambda: codec.decode(table.tree, found.__getitem__)))


def read_manifest(store: Store, name: CheckpointName) -> Manifest:
    """The verified manifest; shards are not looked at. Raises as `load`."""
    try:
        manifest = Manifest.decode(read(store, name.manifest))
    except TooLarge as error:
        raise Damaged(str(error)) from error
    head = manifest.head
    if (head.name, head.step, head.attempt) != (str(name), name.step, str(name.attempt)):
        raise Damaged(f"it is the manifest of {head.name[:80]}, step {head.step}, attempt {head.attempt[:80]}")
    return manifest


@contextmanager
def telling_absence(store: Store, name: CheckpointName) -> Generator[None]:
    """Around a reading of this checkpoint, of which an object may not be there.

    Raises FileNotFoundError if its manifest is gone as well: somebody prunes. Else Damaged: manifests go before shards,
    so the shard is lost.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_OBJECT:
            raise
        if name not in checkpoints_among(store.list(CHECKPOINTS)):
            raise FileNotFoundError(errno.ENOENT, "vanished", name.manifest) from None
        raise Damaged(f"one of its objects is missing ({error.strerror}: {error.filename})") from None


_SENSELESS = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, RuntimeError),
    *(struct.error, codec.Undecodable),
)
"""What decoding raises for bytes that were never a state of ours."""


def sensibly(action: Callable[[], T]) -> T:
    """Raises Damaged for what verifies and makes no sense."""
    try:
        return action()
    except _SENSELESS as error:
        if isinstance(error, RuntimeError) and "allocat" in str(error):
            raise  # torch's way to say that memory ran out: sizes were compared before
        raise Damaged(f"its bytes verify but do not decode: {error!r}") from error


def understood(manifest: Manifest) -> tuple[Table, list[list[Extent]]]:
    """The table, and the rows with bytes by shard; they begin where they do in the shard's data section."""
    table = Table.decode(manifest.table, manifest.format)
    places = table.places
    sizes = dict[tuple[str, str, tuple[int, ...]], int]()
    shards: list[list[Extent]] = [[] for _ in manifest.head.shards]
    of_extent = partial(tuple.__new__, Extent)  # a third of the time that Extent(...) takes
    for index, (_path, kind, dtype, shape, shard, begin) in enumerate(places):
        form = kind, dtype, shape
        if (size := sizes.get(form)) is None:
            size = sizes[form] = values.size_bytes(*form)
        rows = shards[shard]
        if size:
            rows.append(of_extent((begin, size, index)))
    return table, shards
