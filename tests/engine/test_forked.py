"""A child that is forked in the loop may use the model, the optimizer and the data: it waits for nobody."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from app import session
from app.loop import parts
from app.loop.loan import Loan
from tests.engine.loops import Wide, begin


def ended(pid: int, within_s: float) -> bool:
    """A child that hangs is killed."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


@pytest.mark.parametrize("snapshot", ["eager", "deferred", "streaming"])
def test_a_child_that_trains_while_tensors_are_lent_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: str
):
    monkeypatch.setattr(parts, "SMALL_BYTES", 0)
    loop = Wide()
    lent: list[Any] = []
    monkeypatch.setattr(
        Loan, "take_back", lambda self, waited_s, real=Loan.take_back: lent.append(real(self, waited_s))
    )
    with session(
        total_steps=5,
        start=begin(tmp_path / "line"),
        model=loop.model,
        optimizer=loop.optimizer,
        every_steps=1,
        snapshot=snapshot,
    ) as run:
        for step in run.steps():
            if step in {2, 3}:
                pid = os.fork()
                if pid == 0:
                    try:
                        with torch.no_grad():
                            for parameter in loop.model.parameters():
                                parameter.grad = torch.ones_like(parameter)
                        loop.optimizer.step()
                        for _ in run.watch(range(2)):
                            pass
                    finally:
                        os._exit(0)
                assert ended(pid, within_s=20)
            loop.body(step)
    assert bool(lent) == (snapshot != "eager")
