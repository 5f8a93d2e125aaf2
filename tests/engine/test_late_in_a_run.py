"""A program that is well-behaved for 1,000 steps and then writes past its optimizer: found out, or harmless."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from app.loop.loan import Loan
from tests.engine.loops import Wide, same, steps_on

LATE, TOTAL, EVERY = 1000, 1004, 250


class WritesLate(Wide):
    """At the top of step 1,000's body, while the save of that boundary is under way, through `.data`."""

    def __init__(self, part: slice) -> None:
        super().__init__()
        self.part = part
        self.written = threading.Event()

    def body(self, step: int) -> None:
        if step == LATE:
            self.model[3].weight.data[:, self.part].mul_(0.5)
            self.written.set()
        super().body(step)


def uninterrupted(root: Path, part: slice) -> dict[str, torch.Tensor] | None:
    return WritesLate(part).run(root, TOTAL)


def interrupted(root: Path, part: slice, snapshot: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Killed after that step; what is lent at step 1,000 is read only after the write."""
    loop, copy = WritesLate(part), Loan.copy

    def after_the_write(self: Loan) -> None:
        if max(steps_on(root), default=0) == LATE - EVERY:
            assert loop.written.wait(30)
        copy(self)

    monkeypatch.setattr(Loan, "copy", after_the_write)
    loop.run(root, TOTAL, every=EVERY, kill_at=LATE + 2, snapshot=snapshot)
    assert LATE in steps_on(root) or LATE + 1 in steps_on(root)
    monkeypatch.undo()
    ended = WritesLate(part).run(root, TOTAL)
    assert ended is not None
    return ended


@pytest.mark.parametrize("part", [slice(None), slice(0, 1)], ids=["a whole tensor", "a part of it"])
def test_an_eager_save_is_that_of_the_boundary_whatever_is_written_after_it(tmp_path, part, monkeypatch):
    assert same(interrupted(tmp_path / "line", part, "eager", monkeypatch), uninterrupted(tmp_path / "truth", part))


def test_a_deferred_save_that_a_write_to_a_whole_tensor_fell_into_is_not_announced(tmp_path, monkeypatch, capfd):
    part = slice(None)
    assert same(interrupted(tmp_path / "line", part, "deferred", monkeypatch), uninterrupted(tmp_path / "truth", part))
    assert "model/3.weight changed" in capfd.readouterr().out
    assert LATE not in steps_on(tmp_path / "line")
