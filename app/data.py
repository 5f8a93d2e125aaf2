"""Resumable batches from a plain torch DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


class Batches:
    """Endless batches of a `torch.utils.data.DataLoader`, epoch after epoch, whose position a checkpoint can hold.

    Order and the workers' seeds depend on (seed, epoch) only, never on the global generator: a loader that draws its
    seed from there makes an exact resume depend on what else was drawn. A position inside an epoch is found again by
    fetching and dropping the batches before it, which also brings each worker's own generators to where they were.
    """

    def __init__(self, loader: Any, *, seed: int = 0) -> None:
        self._loader = loader
        self._seed = seed
        self._epoch = 0
        self._position = 0
        self._iterator: Iterator[Any] | None = None
        self._generator = torch.Generator()
        loader.generator = self._generator
        sampler = getattr(loader, "sampler", None)
        if sampler is not None and hasattr(sampler, "generator"):
            sampler.generator = self._generator

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
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
        return {"seed": self._seed, "epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._seed, self._epoch = state["seed"], state["epoch"]
        self._begin_epoch()
        for self._position in range(1, state["position"] + 1):
            next(self)
        self._position = state["position"]

    def _begin_epoch(self) -> None:
        self._generator.manual_seed(self._seed * 1_000_003 + self._epoch)
        self._position = 0
        self._iterator = iter(self._loader)
