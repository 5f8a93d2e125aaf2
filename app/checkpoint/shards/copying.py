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


copy_short = _memmove(ctypes.PyDLL(None))
"""(to, from, bytes): other threads wait."""
copy_long = _memmove(ctypes.CDLL(None))
"""(to, from, bytes): other threads run meanwhile."""
