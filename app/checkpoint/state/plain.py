"""JSON forms of Python's own values where JSON has no word for them; docs/checkpoints.md has the table of marks."""

from __future__ import annotations

import base64
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

INT_BITS = 2048
"""Longer integers are written in hexadecimal: Python reads and prints decimals up to a limit only, which may be 640."""
_HEX = re.compile(r"-?0x[0-9a-f]+")


def from_int(value: int) -> Any:
    return value if value.bit_length() <= INT_BITS else {"$int": hex(value)}


def are_short_ints(values: Collection[Any]) -> bool:
    """Whether all of them stand for themselves: asked of all at once, a generator's 625 take a tenth of the time."""
    return set(map(type, values)) == {int} and max(map(int.bit_length, values)) <= INT_BITS


def to_int(value: str) -> int:
    if not _HEX.fullmatch(value):
        raise ValueError("a long integer is not in hexadecimal")
    return int(value, 16)


def from_float(value: float) -> Any:
    return value if math.isfinite(value) else {"$float": repr(value)}


def to_float(value: str) -> float:
    if value not in ("nan", "inf", "-inf"):
        raise ValueError("a float that is neither a JSON number nor nan nor infinite")
    return float(value)


def is_text(value: str) -> bool:
    """Whether JSON keeps it: two lone surrogates in a row would come back as one character."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def are_names(keys: dict[Any, Any]) -> bool:
    """Whether they can be the names of a JSON object. Looked at together: one by one is slow."""
    if not {str}.issuperset(map(type, keys)):
        return False
    together = "".join(keys)
    return (together.isascii() and "$" not in together) or all(key[:1] != "$" and is_text(key) for key in keys)


def from_text(value: str) -> Any:
    return value if is_text(value) else {"$text": from_bytes(value.encode("utf-8", "surrogatepass"))}


def to_text(value: str) -> str:
    return to_bytes(value).decode("utf-8", "surrogatepass")


def from_bytes(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode()


def to_bytes(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


FACTORIES: dict[str, Any] = {
    "none": None,
    **{kind.__name__: kind for kind in (bool, int, float, str, bytes, list, tuple, dict)},
}
"""What a defaultdict may make of a missing key."""
FACTORY_NAMES = {factory: name for name, factory in FACTORIES.items()}
