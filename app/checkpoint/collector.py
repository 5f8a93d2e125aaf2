"""Python's garbage collector, resting while objects are made that all stay.

Ten thousand tensors make so many tuples and small objects at once that it would go through everything there is,
torch's own objects among them, for nothing: hundreds of milliseconds, in the midst of a training step.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def resting() -> Generator[None]:
    """From any thread: when two of these overlap, it is on again with the end of the first."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
