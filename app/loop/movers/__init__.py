"""How the bytes of a snapshot get from where they live into staging: one mover a kind of device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from app.loop.loan import Watch
    from app.loop.staging import Order


class Mover(Protocol):
    """`values` are tensors, and in host memory numpy arrays too; `views` are theirs in staging, in the same order."""

    def new_bytes(self, values: Sequence[Any], order: Order | None = None) -> int:
        """How much more memory `stage` of these would take."""
        ...

    def stage(self, values: Sequence[Any], order: Order | None = None) -> Sequence[Any]:
        """Views for these, which lie in memory in this order. Those given before must not be in use any more.

        Raises MemoryError, OSError.
        """
        ...

    def copy_now(self, views: Sequence[Any], values: Sequence[Any]) -> None:
        """Training thread: whatever the program does next to `values` comes after this copy."""
        ...

    def copy_late(self, views: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        """Saver: the same for tensors that the training thread lends meanwhile."""
        ...

    def watch(
        self, names: Sequence[str], lent: Sequence[torch.Tensor], views: Sequence[torch.Tensor] | None, turn: int
    ) -> Watch:
        """Training thread, at the boundary. views: where the copies will be, None if none are made."""
        ...

    def arrived(self) -> None:
        """Saver: wait until all copies are complete."""
        ...

    def expected_s(self, size_bytes: int) -> float:
        """How long the program would stand still for a copy of so many bytes, by the last one of some size."""
        ...


def mover_for(values: Sequence[Any]) -> Mover:
    """By where these are. Devices other than CUDA's are copied from by the host's mover."""
    from app.loop.movers.host import HostMover

    if not any(_is_on_cuda(value) for value in values):
        return HostMover()
    from app.loop.movers.cuda import CudaMover
    from app.loop.movers.mixed import MixedMover

    return MixedMover(HostMover(), CudaMover(), _is_on_cuda)


def _is_on_cuda(value: Any) -> bool:
    return getattr(getattr(value, "device", None), "type", None) == "cuda"
