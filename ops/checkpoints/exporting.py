"""`gpujob checkpoints export`: a model's weights as one safetensors file, written as a stream and verified on the way.

Tied tensors are one tensor in the file, under the first of their names; the others are in its metadata, name to name,
as `safetensors.torch.save_model` writes it: `load_model` ties them again. After `load_file`, `load_state_dict` with
strict=False does, because the module ties them itself.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ops.checkpoints.survey import Found
from ops.checkpoints.trouble import telling
from ops.checkpoints.weights import Weight, weights_of
from ops.checkpoints.where import Place
from ops.errors import MissingError, NotSucceededError
from ops.text import size_text

if TYPE_CHECKING:
    from app.checkpoint.manifest import Manifest


def export(place: Place, each: Found, model: str | None, out: Path, say: Callable[[str], None]) -> None:
    """Raises OpsError, and what storage and engine raise. `out` is as before unless all of it is written."""
    from app.checkpoint.manifest import Damaged, Torn, Unsupported
    from app.checkpoint.reader import read_manifest

    if not out.parent.is_dir():
        raise MissingError(
            f"There is no output folder {out.parent} to put {out.name} in. Nothing was written. Make it first."
        )
    try:
        manifest = read_manifest(place.store, each.name)
        weights = weights_of(manifest, model, str(each.name))
        _write(place, manifest, weights, out)
    except (Torn, Damaged, Unsupported) as error:
        raise NotSucceededError(
            f"Checkpoint {each.name} cannot be exported: {error}. {out} was not written. Try an older one: "
            f"`gpujob checkpoints verify {place.url}` says which are sound."
        ) from error
    tied = [f"{name} = {weight.name}" for weight in weights for name in weight.also]
    total = size_text(sum(weight.size_bytes for weight in weights))
    say(f"{out}: {len(weights)} tensors, {total}, of checkpoint {each.name}, every byte verified.")
    if tied:
        say(f"Tied, so only once in the file: {', '.join(tied)}.")


def _header(manifest: Manifest, weights: list[Weight]) -> bytes:
    from app.checkpoint.shards.safetensors_file import DTYPES, LENGTH

    tied = {name: weight.name for weight in weights for name in weight.also}
    told = {"format": "pt", "checkpoint": manifest.head.name, "step": str(manifest.head.step)}
    header: dict[str, Any] = {"__metadata__": {**told, **tied}}
    for weight in weights:
        ends = [weight.begin, weight.begin + weight.size_bytes]
        header[weight.name] = {
            "dtype": DTYPES[weight.place.dtype][0],
            "shape": weight.place.shape,
            "data_offsets": ends,
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return LENGTH.pack(len(text)) + text


def _write(place: Place, manifest: Manifest, weights: list[Weight], out: Path) -> None:
    """Beside `out` first: a name that exists holds all of it."""
    half = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    header = _header(manifest, weights)
    folder = f"The output folder {out.parent}"

    def put(data: memoryview, at: int) -> None:
        with telling(folder):
            _pwrite(fd, data, at)

    try:
        with telling(folder):
            file = half.open("xb", buffering=0)
        with file:
            fd = file.fileno()
            put(memoryview(header), 0)
            with telling(folder):
                os.ftruncate(fd, len(header) + sum(weight.size_bytes for weight in weights))
            for index in sorted({weight.place.shard for weight in weights}):
                wanted = [weight for weight in weights if weight.place.shard == index]
                _copy_from(place, manifest, index, wanted, lambda data, at: put(data, len(header) + at))
            with telling(folder):
                os.fsync(fd)
        with telling(folder):
            half.replace(out)
    except BaseException:
        half.unlink(missing_ok=True)
        raise


def _copy_from(
    place: Place, manifest: Manifest, index: int, wanted: list[Weight], put: Callable[[memoryview, int], None]
) -> None:
    """Reads the whole shard, because only its end proves it. Raises Damaged, OSError."""
    from app.checkpoint.manifest import Damaged
    from app.checkpoint.shards import content
    from app.checkpoint.shards.safetensors_file import LENGTH

    shard, at, data_at, head = manifest.head.shards[index], 0, -1, b""
    for block in content.stream(place.store, shard):
        if data_at < 0:
            head += bytes(block[: LENGTH.size - len(head)])
            if len(head) == LENGTH.size:
                data_at = LENGTH.size + LENGTH.unpack(head)[0]
        for weight in wanted:
            begin = data_at + weight.place.begin
            first, last = max(begin, at), min(begin + weight.size_bytes, at + len(block))
            if first < last:
                put(block[first - at : last - at], weight.begin + first - begin)
        at += len(block)
    beyond = [w for w in wanted if data_at + w.place.begin + w.size_bytes > shard.size_bytes]
    if beyond:
        raise Damaged(f"{beyond[0].name} ends behind its shard {shard.name}")


def _pwrite(fd: int, data: memoryview, at: int) -> None:
    while data:
        count = os.pwrite(fd, data, at)
        data, at = data[count:], at + count
