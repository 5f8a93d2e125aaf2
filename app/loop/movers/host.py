"""From host memory: at the boundary with torch's parallel copy, later with one thread that leaves torch's alone."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

import crc32c

from app.checkpoint.shards.copying import copy_long
from app.loop.loan import Versions
from app.loop.movers.staged import TELLING_BYTES, StagedMover
from app.loop.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

SHARE = 64
"""A watch sums one part in so many of each tensor. See docs/decisions.md for what that costs the training loop."""


class HostMover(StagedMover):
    def __init__(self) -> None:
        super().__init__(Staging())

    def copy_now(self, views: Sequence[Any], values: Sequence[Any]) -> None:
        if not values:
            return  # a program without tensors needs no torch
        import torch

        began = time.perf_counter()
        tensors = [(view, value) for view, value in zip(views, values, strict=True) if isinstance(value, torch.Tensor)]
        with torch.no_grad():
            if tensors:
                copy: Any = torch._foreach_copy_  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage] - 10 x less per small tensor
                copy([view for view, _ in tensors], [value for _, value in tensors])
        for view, value in zip(views, values, strict=True):
            if not isinstance(value, torch.Tensor):
                view[...] = value
        size = sum(value.nbytes for value in values)
        if size >= TELLING_BYTES:
            self._took(size, time.perf_counter() - began)

    def copy_late(self, views: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        """`values` are contiguous. Torch's copy would start threads that compete with those of the training."""
        for view, value in zip(views, values, strict=True):
            copy_long(view.data_ptr(), value.data_ptr(), value.nbytes)

    def watch(
        self, names: Sequence[str], lent: Sequence[torch.Tensor], views: Sequence[torch.Tensor] | None, turn: int
    ) -> HostWatch:
        return HostWatch(names, lent, views, turn)

    def arrived(self) -> None:
        """They are when the calls return."""


class HostWatch:
    """Versions, and the crc32c of every SHARE-th part of each contiguous tensor; `turn` chooses the part."""

    def __init__(
        self, names: Sequence[str], lent: Sequence[torch.Tensor], views: Sequence[torch.Tensor] | None, turn: int
    ) -> None:
        self._names, self._lent, self._views = names, lent, views
        self._turn = turn % SHARE
        self._versions = Versions(names, lent)
        self._sums = [self._sum(tensor) for tensor in lent]
        self._different: str | None = None

    def take_back(self) -> None: ...

    def risen(self) -> str | None:
        return self._versions.risen()

    def look(self) -> None:
        """The copy's part too: the tensor may be written between the copy of that part and of another."""
        self._different = next(self._changed(), None)

    def differs(self) -> str | None:
        return self._different

    def _changed(self) -> Iterator[str]:
        for index, expected in enumerate(self._sums):
            if self._sum(self._lent[index]) != expected:
                yield self._names[index]
            if self._views is not None and self._sum(self._views[index]) != expected:
                yield self._names[index]

    def _sum(self, tensor: torch.Tensor) -> int:
        size = tensor.nbytes
        begin, end = size * self._turn // SHARE, size * (self._turn + 1) // SHARE
        part = (ctypes.c_ubyte * (end - begin)).from_address(tensor.data_ptr() + begin)
        return crc32c.crc32c(part)
