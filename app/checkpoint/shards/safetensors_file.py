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

_DATA_ALIGNMENT_BYTES = 4096
"""Of the data section, so that a reader may take it past the page cache (O_DIRECT) to where it belongs."""

ALIGNMENT_BYTES = 64
"""What torch aligns tensors to: read to such a place in memory as they have in the file, they need no copy."""

DTYPES = {
    "float64": ("F64", 8), "float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2), "int64": ("I64", 8),
    "int32": ("I32", 4), "int16": ("I16", 2), "int8": ("I8", 1), "uint8": ("U8", 1), "uint16": ("U16", 2),
    "uint32": ("U32", 4), "uint64": ("U64", 8), "bool": ("BOOL", 1), "complex64": ("C64", 8),
    "float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1), "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1),
}  # fmt: skip
"""torch's name -> the format's word and bytes an element: what `safetensors.torch.load_file` reads."""

_NEWER = {"complex64", "float8_e4m3fnuz", "float8_e5m2fnuz"}
"""Words that earlier readers lack. In a shard these lie as U8, like what has no word: the manifest's table has their
dtype, so any reader opens it."""


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
    text += b" " * (-(len(text) + LENGTH.size) % _DATA_ALIGNMENT_BYTES)
    return LENGTH.pack(len(text)) + text


def _begun(dtype: str, shape: tuple[int, ...], size: int) -> str:
    known = dtype in DTYPES and dtype not in _NEWER
    word = DTYPES[dtype][0] if known else "U8"
    sides = ",".join(map(str, shape)) if known else size
    return f':{{"dtype":"{word}","shape":[{sides}],"data_offsets":['
