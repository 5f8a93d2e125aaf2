"""One shard: a file in safetensors format, written as a stream and read back from a buffer.

Format (https://github.com/huggingface/safetensors#format): 8 bytes little-endian header length, the header's JSON
padded with spaces, then the tensors' bytes without holes. Any safetensors reader opens it. The header is written here
rather than by the library because the bytes must pass by in chunks, to be summed on their way.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from app.checkpoint.store import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.checkpoint.codec import Blob

_ALIGNMENT = 4096
"""Of the data section, so that a reader may take it past the page cache (O_DIRECT) to where it belongs."""

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip
"""Others (complex, newer float8) are stored as U8; the manifest's table has their dtype."""


def entry(blob: Blob, begin: int) -> dict[str, Any]:
    """A tensor's line in the header, its bytes beginning at `begin` of the data section."""
    known = _DTYPES.get(blob.dtype)
    shape = list(blob.shape) if known else [blob.size_bytes]
    return {"dtype": known or "U8", "shape": shape, "data_offsets": [begin, begin + blob.size_bytes]}


def layout(blobs: Sequence[Blob]) -> list[int]:
    """Where each blob's bytes begin in the data section."""
    begins, at = list[int](), 0
    for blob in blobs:
        begins.append(at)
        at += blob.size_bytes
    return begins


def header(blobs: Sequence[Blob]) -> bytes:
    """Length and header, padded so that the data section begins aligned."""
    entries = {blob.path: entry(blob, begin) for blob, begin in zip(blobs, layout(blobs), strict=True)}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def chunks(blobs: Sequence[Blob]) -> Iterator[memoryview]:
    """The whole file, in pieces of at most CHUNK_BYTES."""
    yield memoryview(header(blobs))
    for blob in blobs:
        data = blob.data().cast("B")
        for begin in range(0, data.nbytes, CHUNK_BYTES):
            yield data[begin : begin + CHUNK_BYTES]


def data_section(file: memoryview) -> memoryview:
    """The tensors' bytes of a file whose checksum was verified."""
    (length,) = struct.unpack("<Q", file[:8])
    return file[8 + length :]
