"""Memory for the copy of a state: asked for once, used by save after save, grown when the state grows.

Fresh memory costs more than the copy itself, because the kernel clears each page when it is first touched. So it is one
anonymous mapping in huge pages, touched when it is made.

Values lie in it as they will in the shards' files: back to back in the order of a shard, each as far behind a sector's
beginning as in its file. So the writer gives them to the disk from where they lie.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from app import logs
from app.checkpoint.shards.pages import lasting
from app.checkpoint.shards.safetensors_file import ALIGNMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

_PAGE_BYTES = 2 * 2**20
_SECTOR_BYTES = 4096
_WORTH_A_PLACE_BYTES = 64 * 2**10
"""For smaller ones no bytes are left free."""
_FOR_EVERY_DEVICE = 1
"""cudaHostRegisterPortable."""

Order = Callable[[], Iterable[tuple[int, int]]]
"""Indices of values in the order of the shards' files, and how many bytes lie before each in its data section."""


def huge_pages(size_bytes: int) -> torch.Tensor:
    """Memory of the process, as bytes. Raises OSError or MemoryError when there is none."""
    import torch

    return torch.frombuffer(lasting(size_bytes), dtype=torch.uint8)  # pyright: ignore[reportPrivateImportUsage]


def pinned(size_bytes: int) -> torch.Tensor:
    """The same, which a CUDA device writes to without the processor's help. Raises OSError or MemoryError.

    Pages of our own that CUDA is told of. Torch's own pinned memory is rounded up to a power of two: 9 GiB take 16, and
    room was looked for 9. Nor can the disk read what a driver made (O_DIRECT) everywhere.
    """
    import torch

    held = (ctypes.c_ubyte * size_bytes).from_buffer(lasting(size_bytes))
    address = ctypes.addressof(held)
    cuda: Any = torch.cuda.cudart()
    if refused := int(cuda.cudaHostRegister(address, size_bytes, _FOR_EVERY_DEVICE)):
        logs.warning(
            f"CUDA cannot lock {size_bytes / 1e6:.0f} MB of host memory (cudaHostRegister: error {refused}), so copies "
            "into it take longer. Nothing else changes. `ulimit -l` says how much this process may lock."
        )
    else:
        weakref.finalize(held, cuda.cudaHostUnregister, address).atexit = False  # with the last view of it
    return torch.frombuffer(held, dtype=torch.uint8)


class Staging:
    def __init__(self, allocate: Callable[[int], torch.Tensor] = huge_pages) -> None:
        self._allocate = allocate
        self._memory: torch.Tensor | None = None
        self._layout: list[tuple[Any, ...]] = []
        self._begins: list[int] = []
        self._needed = _PAGE_BYTES
        self._views: list[Any] = []

    @property
    def size_bytes(self) -> int:
        return 0 if self._memory is None else self._memory.numel()

    def new_bytes(self, values: Sequence[Any], order: Order | None = None) -> int:
        """How much more memory `views` of these would take."""
        self._lay_out(values, order)
        return max(0, self._needed - self.size_bytes)

    def views(self, values: Sequence[Any], order: Order | None = None) -> list[Any]:
        """For each tensor or array a contiguous one in this memory, of the same dtype and shape.

        The views of the call before are used up, unless dtypes and shapes are the same: then they are given again.
        """
        self._lay_out(values, order)
        if len(self._views) != len(values):
            if self._memory is None or self._needed > self.size_bytes:
                self._memory = None  # before the new one is there
                self._memory = self._allocate(self._needed)
            memory = self._memory
            self._views = [_view(memory[at : at + v.nbytes], v) for at, v in zip(self._begins, values, strict=True)]
        return self._views

    def _lay_out(self, values: Sequence[Any], order: Order | None) -> None:
        layout = [(type(value).__module__, value.dtype, tuple(value.shape)) for value in values]
        if layout == self._layout:
            return
        self._layout, self._views = layout, []
        self._begins, end = [0] * len(values), 0
        for index, before in order() if order else ((index, 0) for index in range(len(values))):
            size = values[index].nbytes
            begin = -(-end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            if size >= _WORTH_A_PLACE_BYTES and before % ALIGNMENT_BYTES == 0:
                begin += (before - begin) % _SECTOR_BYTES
            self._begins[index], end = begin, begin + size
        self._needed = max(_PAGE_BYTES, -(-end // _PAGE_BYTES) * _PAGE_BYTES)


def _view(memory: torch.Tensor, value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return memory.view(value.dtype).view(value.shape)
    return memory.numpy().view(value.dtype).reshape(value.shape)
