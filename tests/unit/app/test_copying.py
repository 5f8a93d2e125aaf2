"""Copies in memory: which of them other threads may run beside."""

from __future__ import annotations

import ctypes

import pytest

from app.checkpoint.shards.copying import address_of, copy_long, copy_short


@pytest.mark.parametrize("copy", [copy_short, copy_long])
def test_bytes_arrive_and_their_neighbours_stay(copy):
    source, target = bytearray(b"abcdef"), bytearray(8)
    copy(address_of(memoryview(target)) + 1, address_of(memoryview(source)) + 2, 3)
    assert target == b"\0cde\0\0\0\0"


def test_only_the_short_copy_keeps_the_lock():
    keeps_the_lock = ctypes.PyDLL._func_flags_ & ~ctypes.CDLL._func_flags_
    assert copy_short._flags_ & keeps_the_lock
    assert not copy_long._flags_ & keeps_the_lock
