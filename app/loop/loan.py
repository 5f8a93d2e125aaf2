"""Tensors that the training thread lends to a save: read after the boundary, and watched meanwhile.

Only parameters and state of optimizers that were seen at the gate are lent, so nothing should change them before the
gate lets an update through. Should is not enough: `Watch` tells whether something did, by two means that miss
different things. A tensor's version rises with every in-place operation but those through `.data` and fused updates; a
checksum over a part of each tensor, a different one in each save, sees any write to that part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch


class Moved(Exception):  # noqa: N818
    """Something that a save reads after its boundary changed meanwhile: the save must not be announced."""

    def __init__(self, what: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        """Path in the state's tree, where it is known."""


class Watch(Protocol):
    """Begun at the boundary, by the training thread."""

    def take_back(self) -> None:
        """Training thread, before it goes on to what changes the tensors: wait for what reads them on a device."""
        ...

    def risen(self) -> str | None:
        """A tensor whose version is not the boundary's, or None."""
        ...

    def look(self) -> None:
        """Saver, when all was read and while it is still lent: sum up again. A device is only asked to."""
        ...

    def differs(self) -> str | None:
        """After `look`: a tensor that, or whose copy, is not the boundary's, or None. Waits for the device."""
        ...


class Versions:
    """Version counters of tensors, as they are now."""

    def __init__(self, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
        self._noted = [(name, tensor, tensor._version) for name, tensor in zip(names, tensors, strict=True)]

    def risen(self) -> str | None:
        """The name of a tensor whose version is another since, or None."""
        return next((name for name, tensor, version in self._noted if tensor._version != version), None)


class Loan:
    def __init__(self, watch: Watch, copy: Callable[[], None] | None) -> None:
        """`copy`: brings what is lent into memory of the save's own; None: the writer reads the tensors themselves."""
        self.waited_s = 0.0
        """How long the training thread had to wait for its tensors."""
        self.proof_s = 0.0
        """How long the saver waited for the training thread's word that they are unchanged."""
        self.is_proven = False
        self._watch = watch
        self._copy = copy
        self._taken_back = False
        self._risen: str | None = None

    @property
    def is_copied(self) -> bool:
        """Whether it can be given back before it is written."""
        return self._copy is not None

    def copy(self) -> None:
        """Saver: bring it into memory of the save's own, if that is how it is read."""
        if self._copy is not None:
            self._copy()
            self._watch.look()

    def compare(self) -> None:
        """Saver, when all was read: is it what was there at the boundary? Raises Moved."""
        if self._copy is None:
            self._watch.look()
        if (what := self._watch.differs()) is not None:
            raise Moved(what)

    def take_back(self, waited_s: float) -> None:
        """Training thread, through the gate."""
        self._watch.take_back()
        self._risen = self._watch.risen()
        self._taken_back = True
        self.waited_s += waited_s

    @property
    def moved(self) -> str | None:
        """What changed until the training thread took it back or, if it did not yet, until now."""
        return self._risen if self._taken_back else self._watch.risen()

    @property
    def moved_at_return(self) -> bool:
        return self._taken_back and self._risen is not None
