"""From CUDA devices: into pinned staging, on a stream beside that of the training.

The processor never waits for a copy: at the gate the training's stream is told to wait for it. So the order of things
is that of the device: fingerprint, then whatever the program does, beside it the copy and a second fingerprint, and
only then the update. Two equal fingerprints prove that the copy is of the boundary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from app.loop.loan import Versions
from app.loop.movers.staged import TELLING_BYTES, StagedMover
from app.loop.staging import Staging, pinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    Event = torch.cuda.Event | torch.Event

ROW = 1024
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class CudaMover(StagedMover):
    def __init__(self) -> None:
        super().__init__(Staging(pinned))
        self._beside = dict[torch.device, torch.cuda.Stream]()
        self._complete: list[Event] = []
        """Of the last copies and, when tensors are lent, of the program's work before that."""
        self._timed: tuple[torch.cuda.Event, torch.cuda.Event, int] | None = None

    def copy_now(self, views: Sequence[Any], values: Sequence[Any]) -> None:
        """On the training's own stream: in its order, so nothing that follows comes before."""
        if not values:
            return
        size = sum(value.nbytes for value in values)
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        timing = torch.cuda.current_stream(values[0].device)  # the program's device need not be the current one
        before.record(timing)
        for view, value in zip(views, values, strict=True):
            with torch.cuda.device(value.device):
                view.copy_(value.detach(), non_blocking=True)
        after.record(timing)
        self._complete += _now(values).values()
        if size >= TELLING_BYTES:
            self._timed = (before, after, size)

    def copy_late(self, views: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
        """Asked for here, done by the device later."""
        for view, value in zip(views, values, strict=True):
            with torch.cuda.stream(self._beside_of(value.device)):
                view.copy_(value.detach(), non_blocking=True)

    def watch(
        self, names: Sequence[str], lent: Sequence[torch.Tensor], views: Sequence[torch.Tensor] | None, turn: int
    ) -> CudaWatch:
        del views, turn  # every byte is looked at
        first = [fingerprint(tensor) for tensor in lent]
        for device, event in _now(lent).items():
            self._beside_of(device).wait_event(event)
            self._complete.append(event)
        return CudaWatch(self, names, lent, first)

    def look_again(self, lent: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[Event]]:
        """Fingerprints behind the copies, and the events that they and the copies are complete."""
        found = list[torch.Tensor]()
        for tensor in lent:
            with torch.cuda.stream(self._beside_of(tensor.device)):
                found.append(fingerprint(tensor))
        events = [stream.record_event() for stream in self._beside.values()]
        self._complete += events
        return found, events

    def arrived(self) -> None:
        while self._complete:
            self._complete.pop().synchronize()
        if self._timed is not None:
            before, after, size = self._timed
            self._took(size, before.elapsed_time(after) / 1000)
            self._timed = None

    def _beside_of(self, device: torch.device) -> torch.cuda.Stream:
        if device not in self._beside:
            self._beside[device] = torch.cuda.Stream(device)
        return self._beside[device]


class CudaWatch:
    def __init__(
        self, mover: CudaMover, names: Sequence[str], lent: Sequence[torch.Tensor], first: Sequence[torch.Tensor]
    ) -> None:
        self._mover, self._names, self._lent, self._first = mover, names, lent, first
        self._versions = Versions(names, lent)
        self._second: Sequence[torch.Tensor] = []
        self._complete: Sequence[Event] = []

    def take_back(self) -> None:
        """What the training asks of the device from here on comes after the copies."""
        for tensor in {tensor.device: tensor for tensor in self._lent}.values():
            for event in self._complete:
                torch.cuda.current_stream(tensor.device).wait_event(event)

    def risen(self) -> str | None:
        return self._versions.risen()

    def look(self) -> None:
        self._second, self._complete = self._mover.look_again(self._lent)

    def differs(self) -> str | None:
        self._mover.arrived()
        for name, first, second in zip(self._names, self._first, self._second, strict=True):
            if first.tolist() != second.tolist():
                return name
        return None


def fingerprint(tensor: torch.Tensor) -> torch.Tensor:
    """Two int64 on the tensor's device: the sum of its bits as integers, and of its rows of 1024 each weighed by place.

    A changed value changes the first, rows that change places the second. It reads the tensor once.
    """
    flat = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    bits = flat.reshape(-1).view(_BITS[flat.element_size()])
    whole = bits.numel() // ROW * ROW
    rows = bits[:whole].view(-1, ROW).sum(1, dtype=torch.int64)
    rest = bits[whole:].sum(dtype=torch.int64)
    weights = 2 * torch.arange(1, rows.numel() + 1, device=rows.device) + 1
    return torch.stack((rows.sum() + rest, (rows * weights).sum() + 7 * rest))


def _now(values: Sequence[torch.Tensor]) -> dict[torch.device, Event]:
    """An event on the current stream of each device."""
    return {device: torch.cuda.current_stream(device).record_event() for device in {each.device for each in values}}
