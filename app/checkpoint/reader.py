"""Reading one checkpoint: nothing of it is believed before its checksum matched."""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import crc32c

from app.checkpoint import codec, safetensors_file
from app.checkpoint.manifest import Damaged, Head, Manifest
from app.checkpoint.store import CHUNK_BYTES, read
from app.checkpoint.table import Table
from app.contract import Refusal

if TYPE_CHECKING:
    from app.checkpoint.manifest import Shard
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.store import Store
    from app.checkpoint.table import Place


@dataclass(frozen=True)
class Loaded:
    """A verified checkpoint: the tree that was given to `encode`, tensors in host memory."""

    name: CheckpointName
    head: Head
    state: Any


def load(store: Store, name: CheckpointName) -> Loaded:
    """Raises Torn, Damaged, Unsupported (manifest.py), FileNotFoundError for what vanished, OSError for the rest.

    And Refusal for a checkpoint that is a directory tree.
    """
    manifest = head_and_table(store, name)
    if manifest.head.files is not None:
        raise Refusal(
            f"Checkpoint {name} is a directory tree of {manifest.head.files} files, not the state of a session. "
            "Nothing was changed. Get it with restore_tree, or give the session another CHECKPOINT_DIR or job name."
        )
    shards = [_read_shard(store, shard) for shard in manifest.head.shards]
    try:
        return Loaded(name, manifest.head, _decode(Table.decode(manifest.table, manifest.format), shards))
    except _SENSELESS as error:
        if isinstance(error, RuntimeError) and "allocat" in str(error):
            raise  # torch's way to say that memory ran out: sizes were compared before
        raise Damaged(f"its bytes verify but do not decode: {error!r}") from error


_SENSELESS = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, RuntimeError),
    *(struct.error, codec.Undecodable),
)
"""What decoding raises for bytes that were never a state of ours."""


def head_and_table(store: Store, name: CheckpointName) -> Manifest:
    """The verified manifest; shards are not looked at. Raises as `load`."""
    manifest = Manifest.decode(read(store, name.manifest))
    head = manifest.head
    if (head.name, head.step, head.attempt) != (str(name), name.step, str(name.attempt)):
        raise Damaged(f"it is the manifest of {head.name[:80]}, step {head.step}, attempt {head.attempt[:80]}")
    return manifest


def _read_shard(store: Store, shard: Shard) -> memoryview:
    try:
        file = store.open(shard.name)
    except ValueError as error:  # no file can have that name
        raise Damaged(f"shard {shard.name!r}: {error}") from error
    with file:
        present = file.seek(0, os.SEEK_END)
        if present != shard.size_bytes:  # before so much memory is asked for
            raise Damaged(f"shard {shard.name} holds {present} bytes, its manifest says {shard.size_bytes}")
        file.seek(0)
        buffer = memoryview(bytearray(shard.size_bytes))
        filled, checksum = 0, 0
        while filled < shard.size_bytes:
            count = cast("Any", file).readinto(buffer[filled : filled + CHUNK_BYTES])
            if not count:
                raise Damaged(f"shard {shard.name} ends after {filled} of {shard.size_bytes} bytes")
            checksum = crc32c.crc32c(buffer[filled : filled + count], checksum)
            filled += count
        if file.read(1):
            raise Damaged(f"shard {shard.name} is longer than {shard.size_bytes} bytes")
    if f"{checksum:08x}" != shard.crc32c:
        raise Damaged(f"shard {shard.name} has crc32c {checksum:08x}, its manifest says {shard.crc32c}")
    return buffer


def _decode(table: Table, shards: list[memoryview]) -> Any:
    data = [safetensors_file.data_section(shard) for shard in shards]
    values = dict[int, Any]()

    def blob(index: int) -> Any:
        if index not in values:  # a tensor that occurs twice in the tree is one tensor again
            place = table.places[index]
            values[index] = _value(place, data[place.shard])
        return values[index]

    return codec.decode(table.tree, blob)


def _value(place: Place, data: memoryview) -> Any:
    """A tensor or array of its own memory, which is aligned for its dtype; the shard's buffer need not be."""
    begin, dtype, shape = place.begin, place.dtype, place.shape
    if place.kind == "array":
        import numpy as np

        kind = np.dtype(dtype)
        if kind.kind not in "biufc":
            raise ValueError(f"{place.path} is of dtype {dtype}")
        return np.frombuffer(data, kind, count=math.prod(shape), offset=begin).reshape(shape).copy()
    if place.kind != "tensor":
        raise ValueError(f"{place.path} is a {place.kind}")
    import torch

    kind = getattr(torch, dtype)
    if str(kind) != f"torch.{dtype}" or not isinstance(kind, torch.dtype):
        raise ValueError(f"{place.path} is of dtype {dtype}")
    if begin + math.prod(shape) * kind.itemsize > len(data):  # before so much memory is asked for
        raise ValueError(f"{place.path} of shape {list(shape)} ends behind its shard")
    tensor = torch.empty(shape, dtype=kind)
    if tensor.nbytes:
        source = torch.frombuffer(data, dtype=torch.uint8, count=tensor.nbytes, offset=begin)
        tensor.view(-1).view(torch.uint8).copy_(source)
    return tensor
