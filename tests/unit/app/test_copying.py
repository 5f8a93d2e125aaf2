"""Copies in memory: which of them other threads may run beside."""

from __future__ import annotations

import ctypes

import pytest

from app.checkpoint.shards.copying import FEW_PARTS, address_of, copy_apart, copy_long, copy_short


@pytest.mark.parametrize("copy", [copy_short, copy_long])
def test_bytes_arrive_and_their_neighbours_stay(copy):
    source, target = bytearray(b"abcdef"), bytearray(8)
    copy(address_of(memoryview(target)) + 1, address_of(memoryview(source)) + 2, 3)
    assert target == b"\0cde\0\0\0\0"


def test_only_the_short_copy_keeps_the_lock():
    keeps_the_lock = ctypes.PyDLL._func_flags_ & ~ctypes.CDLL._func_flags_
    assert copy_short._flags_ & keeps_the_lock
    assert not copy_long._flags_ & keeps_the_lock


@pytest.mark.parametrize("count", [1, FEW_PARTS - 1, FEW_PARTS, 100])
@pytest.mark.parametrize(("size", "stride"), [(4, 64), (64, 64), (100, 128)])
def test_parts_arrive_apart_and_what_lies_between_them_stays(count, size, stride):
    source = memoryview(bytearray(index % 251 + 1 for index in range(size * count)))
    target = bytearray(stride * count)
    copy_apart(address_of(memoryview(target)), stride, address_of(source), size, count)
    gap = bytes(stride - size)
    assert target == b"".join(bytes(source[size * part : size * (part + 1)]) + gap for part in range(count))
