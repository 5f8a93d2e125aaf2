"""The header of a shard, which is a file in safetensors format.

Format (https://github.com/huggingface/safetensors#format): 8 bytes little-endian header length, the header's JSON
padded with spaces, then the tensors' bytes without holes. Any safetensors reader opens it. The header is written here
rather than by the library because the bytes must pass by in blocks (blocks.py), to be summed on their way.
"""

from __future__ import annotations

import struct
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LENGTH = struct.Struct("<Q")
"""A file begins with the length of its header; behind both begins the data section."""

_ALIGNMENT = 4096
"""Of the data section, so that a reader may take it past the page cache (O_DIRECT) to where it belongs."""

LINE_BYTES = 64
"""What torch aligns tensors to: read to such a place in memory as they have in the file, they need no copy."""

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip
"""Others (complex, newer float8) are stored as U8; the manifest's table has their dtype."""


def header(blobs: Iterable[tuple[str, str, tuple[int, ...]]], sizes: Iterable[int]) -> bytes:
    """Length and header of blobs (path, dtype, shape) of these sizes in order; the data section begins aligned."""
    entries, at = list[str](), 0
    begun = dict[tuple[str, tuple[int, ...]], str]()
    for (path, dtype, shape), size in zip(blobs, sizes, strict=True):
        if (dtype, shape) not in begun:
            begun[dtype, shape] = _begun(dtype, shape, size)
        end = at + size
        entries.append(f"{encode_basestring_ascii(path)}{begun[dtype, shape]}{at},{end}]}}")
        at = end
    text = f"{{{','.join(entries)}}}".encode()
    text += b" " * (-(len(text) + LENGTH.size) % _ALIGNMENT)
    return LENGTH.pack(len(text)) + text


def _begun(dtype: str, shape: tuple[int, ...], size: int) -> str:
    known = _DTYPES.get(dtype)
    sides = ",".join(map(str, shape)) if known else size
    return f':{{"dtype":"{known or "U8"}","shape":[{sides}],"data_offsets":['
