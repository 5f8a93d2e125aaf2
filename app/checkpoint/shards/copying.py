"""Bytes from one place in memory to another, with Python's lock or without it.

To give the lock away means to wait for it afterwards, while a training loop has it: up to 5 ms a time, so what is short
is copied without giving it away. (ctypes.memmove always gives it away.)
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmap import mmap

SHORT_BYTES = 64 * 2**10
"""Takes some microseconds."""


def address_of(memory: mmap | memoryview) -> int:
    """Of its first byte; the memory must be writable."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _memmove(library: ctypes.CDLL) -> Any:
    function = library.memmove
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    function.restype = None
    return function


FEW_PARTS = 16
"""Numpy's way costs as much as copying so many one by one."""

copy_short = _memmove(ctypes.PyDLL(None))
"""(to, from, bytes): other threads wait."""
copy_long = _memmove(ctypes.CDLL(None))
"""(to, from, bytes): other threads run meanwhile."""


def copy_apart(to: int, stride: int, source: int, size: int, count: int) -> None:
    """`count` parts of `size` bytes, back to back in `source`, to places that are `stride` bytes apart.

    As one strided copy by numpy, without Python's lock: 0.1 us a part instead of 0.8 by ctypes.
    """
    if count < FEW_PARTS:
        for part in range(count):
            copy_short(to + part * stride, source + part * size, size)
        return
    import numpy as np

    parts = np.frombuffer(_at(source, size * count), np.uint8).reshape(count, size)
    places = np.frombuffer(_at(to, stride * (count - 1) + size), np.uint8)
    np.copyto(np.lib.stride_tricks.as_strided(places, (count, size), (stride, 1)), parts)


def _at(address: int, size_bytes: int) -> Any:
    return (ctypes.c_char * size_bytes).from_address(address)
