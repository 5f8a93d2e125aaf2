"""Reading one checkpoint: nothing of it is believed before its checksum matched."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import crc32c

from app.checkpoint import codec, safetensors_file
from app.checkpoint.manifest import Damaged, Head, Manifest
from app.checkpoint.store import CHUNK_BYTES, read

if TYPE_CHECKING:
    from app.checkpoint.manifest import Shard
    from app.checkpoint.names import CheckpointName
    from app.checkpoint.store import Store


@dataclass(frozen=True)
class Loaded:
    """A verified checkpoint: the tree that was given to `encode`, tensors in host memory."""

    name: CheckpointName
    head: Head
    state: Any


def load(store: Store, name: CheckpointName) -> Loaded:
    """Raises Torn, Damaged, Unsupported (manifest.py), FileNotFoundError for what vanished, OSError for the rest."""
    manifest = head_and_table(store, name)
    shards = [_read_shard(store, shard) for shard in manifest.head.shards]
    try:
        return Loaded(name, manifest.head, _decode(manifest.table, shards))
    except (ValueError, KeyError, TypeError, IndexError, codec.Undecodable) as error:
        raise Damaged(f"its bytes verify but do not decode: {error!r}") from error


def head_and_table(store: Store, name: CheckpointName) -> Manifest:
    """The verified manifest; shards are not looked at. Raises as `load`."""
    manifest = Manifest.decode(read(store, name.manifest))
    if manifest.head.name != str(name):
        raise Damaged(f"it is the manifest of {manifest.head.name}")
    return manifest


def _read_shard(store: Store, shard: Shard) -> memoryview:
    with store.open(shard.name) as file:
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


def _decode(table: bytes, shards: list[memoryview]) -> Any:
    parsed = json.loads(table)
    data = [safetensors_file.data_section(shard) for shard in shards]
    values = dict[int, Any]()

    def blob(index: int) -> Any:
        if index not in values:  # a tensor that occurs twice in the tree is one tensor again
            place = parsed["tensors"][index]
            values[index] = _value(place, data[place["shard"]])
        return values[index]

    return codec.decode(parsed["tree"], blob)


def _value(place: dict[str, Any], data: memoryview) -> Any:
    """A tensor or array of its own memory, which is aligned for its dtype; the shard's buffer need not be."""
    begin, dtype, shape = place["begin"], place["dtype"], tuple(place["shape"])
    if place["kind"] == "array":
        import numpy as np

        kind = np.dtype(dtype)
        return np.frombuffer(data, kind, count=math.prod(shape), offset=begin).reshape(shape).copy()
    import torch

    tensor = torch.empty(shape, dtype=getattr(torch, dtype))
    if tensor.nbytes:
        source = torch.frombuffer(data, dtype=torch.uint8, count=tensor.nbytes, offset=begin)
        tensor.view(-1).view(torch.uint8).copy_(source)
    return tensor
