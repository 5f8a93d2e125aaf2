"""Memory for the copy of a state: asked for once, used by save after save, grown when the state grows.

Fresh memory costs more than the copy itself, because the kernel clears each page when it is first touched. So it is one
anonymous mapping in huge pages, touched when it is made.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from app.checkpoint.shards.safetensors_file import ALIGNMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

_PAGE_BYTES = 2 * 2**20
_POPULATE_WRITE = 23
"""madvise(2), since Linux 5.14; the module `mmap` has no name for it."""


def huge_pages(size_bytes: int) -> torch.Tensor:
    """Memory of the process, as bytes. Raises OSError or MemoryError when there is none."""
    import torch

    memory = mmap.mmap(-1, size_bytes)
    for advice in (mmap.MADV_HUGEPAGE, _POPULATE_WRITE):
        with suppress(OSError):
            memory.madvise(advice)
    return torch.frombuffer(memory, dtype=torch.uint8)  # pyright: ignore[reportPrivateImportUsage]


def pinned(size_bytes: int) -> torch.Tensor:
    """Memory that a CUDA device writes to without the CPU's help, as bytes. Raises RuntimeError."""
    import torch

    return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)


class Staging:
    def __init__(self, allocate: Callable[[int], torch.Tensor] = huge_pages) -> None:
        self._allocate = allocate
        self._memory: torch.Tensor | None = None
        self._layout: list[tuple[Any, ...]] = []
        self._views: list[Any] = []

    @property
    def size_bytes(self) -> int:
        return 0 if self._memory is None else self._memory.numel()

    def new_bytes(self, values: Sequence[Any]) -> int:
        """How much more memory `views` of these would take."""
        return max(0, needed_bytes(values) - self.size_bytes)

    def views(self, values: Sequence[Any]) -> list[Any]:
        """For each tensor or array a contiguous one in this memory, of the same dtype and shape.

        The views of the call before are used up, unless the layout is the same: then they are given again.
        """
        layout = [(type(value).__module__, value.dtype, tuple(value.shape)) for value in values]
        if layout == self._layout:
            return self._views
        self._views, self._layout = [], []
        needed = needed_bytes(values)
        if self._memory is None or needed > self.size_bytes:
            self._memory = None  # before the new one is there
            self._memory = self._allocate(needed)
        begin = 0
        for value in values:
            self._views.append(_view(self._memory[begin : begin + value.nbytes], value))
            begin += _padded(value.nbytes)
        self._layout = layout
        return self._views


def needed_bytes(values: Sequence[Any]) -> int:
    """What a staging for these takes."""
    total = sum(_padded(value.nbytes) for value in values)
    return max(_PAGE_BYTES, -(-total // _PAGE_BYTES) * _PAGE_BYTES)


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _view(memory: torch.Tensor, value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return memory.view(value.dtype).view(value.shape)
    return memory.numpy().view(value.dtype).reshape(value.shape)
