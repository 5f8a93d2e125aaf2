"""Resumable batches from a plain torch DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from app.contract import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_SEEDS = 2**64
"""A generator takes so many, and no larger number."""


class Batches:
    """Endless batches of a `torch.utils.data.DataLoader`, epoch after epoch, whose position a checkpoint can hold.

    Order and the workers' seeds depend on (seed, epoch) only, never on the global generator: a loader that draws its
    seed from there makes an exact resume depend on what else was drawn. A sampler with `set_epoch` is told the epoch.
    A position inside an epoch is found again by fetching and dropping the batches before it, which also brings each
    worker's own generators to where they were.

    Raises Refusal for a loader whose order or position cannot be found again.
    """

    def __init__(self, loader: Any, *, seed: int = 0) -> None:
        self.hold: Callable[[], None] = lambda: None
        """Called before each batch; a session puts its gate here, so that a stop that saves holds the program."""
        if getattr(loader, "persistent_workers", False):
            raise Refusal(
                "The data loader keeps its workers from epoch to epoch (persistent_workers=True), so what they draw "
                "depends on all epochs before, and no checkpoint can bring that back. Use persistent_workers=False."
            )
        self._loader = loader
        self._seed = seed
        self._epoch = 0
        self._position = 0
        self._iterator: Iterator[Any] | None = None
        self._generator = torch.Generator()
        loader.generator = self._generator
        batch_sampler = getattr(loader, "batch_sampler", None)
        samplers = [getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)]
        self._samplers: list[Any] = [sampler for sampler in samplers if sampler is not None]
        for sampler in self._samplers:
            if hasattr(sampler, "generator"):
                sampler.generator = self._generator

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        self.hold()
        for _ in range(2):
            if self._iterator is None:
                self._begin_epoch()
            assert self._iterator is not None  # noqa: S101 - for the type checker
            for batch in self._iterator:
                self._position += 1
                return batch
            if self._position == 0:
                break
            self._epoch, self._position, self._iterator = self._epoch + 1, 0, None
        raise ValueError(
            "The data loader gives no batches: is the dataset empty, or smaller than one batch with drop_last?"
        )

    def state_dict(self) -> dict[str, int]:
        length = self._length()
        counted = {} if length is None else {"batches": length}
        return {"seed": self._seed, "epoch": self._epoch, "position": self._position, **counted}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Raises Refusal for what is no position, and if the data has become less: it would be of something else."""
        values: list[Any] = [state.get(name) for name in ("seed", "epoch", "position")]
        seed, epoch, position = values
        there, here = state.get("batches"), self._length()
        if not (type(seed) is type(epoch) is type(position) is int and type(there) in {int, type(None)}):
            raise Refusal(f"This is no position in data: {state!r:.200}. Nothing was changed on the checkpoint line.")
        nowhere = Refusal(
            f"Epoch {epoch}, batch {position} of {there} is no position in data. Nothing was changed on the "
            "checkpoint line."
        )
        if epoch < 0 or position < 0:
            raise nowhere
        if there is not None and here is not None and here < there:
            raise Refusal(
                f"The data loader gives {here} batches an epoch, and gave {there} when the checkpoint was made: its "
                "position is one in other data. Give it the data and the batch size it had. Nothing was changed on the "
                "checkpoint line."
            )
        self._seed, self._epoch = seed, epoch
        self._begin_epoch()
        for self._position in range(1, position + 1):
            next(self)
            if self._epoch != epoch:  # which ended before; beyond the length it may go, as a stream's is an estimate
                raise nowhere
        self._position = position

    def _length(self) -> int | None:
        """Batches an epoch; None for a stream."""
        try:
            return len(self._loader)
        except TypeError:
            return None

    def _begin_epoch(self) -> None:
        mixed = self._seed * 1_000_003 + self._epoch
        self._generator.manual_seed(mixed if -_SEEDS // 2 <= mixed < _SEEDS else mixed % _SEEDS)
        for sampler in self._samplers:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self._epoch)
        self._position = 0
        self._iterator = iter(self._loader)
