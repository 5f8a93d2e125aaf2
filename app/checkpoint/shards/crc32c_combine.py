"""The crc32c of bytes that several threads read, from the crc32c of each part."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, bits reversed (RFC 3720, B.4)."""
_ONE = 1 << 31
_ONE_BYTE = 1 << 23
"""x^0 and x^8 in that order of bits."""


def combine(parts: Iterable[tuple[int, int]]) -> int:
    """Of consecutive parts, each (its own crc32c, its length in bytes); as zlib's crc32_combine does it.

    A part that follows multiplies the polynomial before it by x to the power of its bits.
    """
    whole = 0
    for checksum, length in parts:
        whole = (_times(_x_to_bytes(length), whole) if whole else 0) ^ checksum
    return whole


@cache
def _x_to_bytes(count: int) -> int:
    power, square = _ONE, _ONE_BYTE
    while count:
        if count & 1:
            power = _times(square, power)
        square = _times(square, square)
        count >>= 1
    return power


def _times(a: int, b: int) -> int:
    """Product of two polynomials modulo the generator."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = (a << 1) & 0xFFFFFFFF
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
    return product
