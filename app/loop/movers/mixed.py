"""A state that lives on two kinds of device: each value by the mover of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from app.loop.loan import Watch
    from app.loop.movers import Mover
    from app.loop.staging import Order


class MixedMover:
    def __init__(self, host: Mover, device: Mover, is_on_device: Callable[[Any], bool]) -> None:
        self._host, self._device, self._is_on_device = host, device, is_on_device

    def new_bytes(self, values: Sequence[Any], order: Order | None = None) -> int:
        host, device = self._split(values)
        on_host = self._host.new_bytes(_at(values, host), _order_of(host, order))
        return on_host + self._device.new_bytes(_at(values, device), _order_of(device, order))

    def stage(self, values: Sequence[Any], order: Order | None = None) -> Sequence[Any]:
        host, device = self._split(values)
        views = dict(zip(host, self._host.stage(_at(values, host), _order_of(host, order)), strict=True))
        views |= dict(zip(device, self._device.stage(_at(values, device), _order_of(device, order)), strict=True))
        return [views[index] for index in range(len(values))]

    def copy_now(self, views: Sequence[Any], values: Sequence[Any]) -> None:
        host, device = self._split(values)
        self._device.copy_now(_at(views, device), _at(values, device))  # it only asks, and works meanwhile
        self._host.copy_now(_at(views, host), _at(values, host))

    def copy_late(self, views: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        host, device = self._split(values)
        self._device.copy_late(_at(views, device), _at(values, device))
        self._host.copy_late(_at(views, host), _at(values, host))

    def watch(
        self, names: Sequence[str], lent: Sequence[torch.Tensor], views: Sequence[torch.Tensor] | None, turn: int
    ) -> MixedWatch:
        def of(mover: Mover, indices: list[int]) -> Watch:
            into = None if views is None else _at(views, indices)
            return mover.watch(_at(names, indices), _at(lent, indices), into, turn)

        host, device = self._split(lent)
        return MixedWatch(of(self._device, device), of(self._host, host))

    def arrived(self) -> None:
        self._host.arrived()
        self._device.arrived()

    def expected_s(self, size_bytes: int) -> float:
        return self._device.expected_s(size_bytes)

    def _split(self, values: Sequence[Any]) -> tuple[list[int], list[int]]:
        """Indices of those in host memory, and of the others."""
        host, device = list[int](), list[int]()
        for index, value in enumerate(values):
            (device if self._is_on_device(value) else host).append(index)
        return host, device


class MixedWatch:
    def __init__(self, *watches: Watch) -> None:
        self._watches = watches

    def take_back(self) -> None:
        for watch in self._watches:
            watch.take_back()

    def risen(self) -> str | None:
        return next((what for watch in self._watches if (what := watch.risen()) is not None), None)

    def look(self) -> None:
        for watch in self._watches:
            watch.look()

    def differs(self) -> str | None:
        return next((what for watch in self._watches if (what := watch.differs()) is not None), None)


def _order_of(indices: list[int], order: Order | None) -> Order | None:
    """Of these only, which are counted anew."""
    if order is None:
        return None
    new = {index: number for number, index in enumerate(indices)}
    return lambda: [(new[index], before) for index, before in order() if index in new]


def _at(values: Sequence[Any], indices: list[int]) -> list[Any]:
    return [values[index] for index in indices]
