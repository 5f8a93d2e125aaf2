"""The training loops people really write, as programs that a test stops, kills and resumes."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from app import session, startup
from app.contract import Task
from app.shutdown import Shutdown
from tests.engine.harness import Interrupted, until_still


def begin(root: Path) -> startup.Start:
    root.mkdir(exist_ok=True)
    task = Task(root)
    return startup.begin(task, startup.open_store(task))


def steps_on(root: Path) -> list[int]:
    return sorted(int(path.name[:12]) for path in (root / "job-task-0/checkpoints").glob("*.json"))


class Loop:
    """A program made anew for each attempt; `body(step)` is one step of it."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.subjects: dict[str, Any] = {}

    def backward(self) -> None:
        x = torch.randn(6, 4)
        (self.model(x) - x.sum(1, keepdim=True)).square().mean().backward()

    def body(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()

    def run(
        self,
        root: Path,
        total: int = 12,
        *,
        every: int = 100,
        stop_at: int | None = None,
        stop_on: threading.Event | None = None,
        kill_at: int | None = None,
        snapshot: str = "auto",
    ) -> dict[str, torch.Tensor] | None:
        """Returns the weights. A stop comes after the body of `stop_at` or on the event, a kill before `kill_at`."""
        left = threading.Event()

        def exit_process(_code: int) -> NoReturn:
            left.set()
            while True:  # a process that has left does nothing more
                threading.Event().wait()

        shutdown = Shutdown(exit_process=exit_process, end_children=lambda: None, grace_s=4)

        def attempt() -> None:
            subjects = {"model": self.model, "optimizer": self.optimizer, **self.subjects}
            options: dict[str, Any] = {"every_steps": every, "snapshot": snapshot}
            with session(total_steps=total, start=begin(root), shutdown=shutdown, **options, **subjects) as run:
                for step in run.steps():
                    if step == kill_at:
                        raise Interrupted
                    self.body(step)
                    if step == stop_at:
                        shutdown.request()

        if stop_at is None and stop_on is None:
            try:
                attempt()
            except Interrupted:
                return None
        else:
            thread = threading.Thread(target=attempt, daemon=True)
            thread.start()
            if stop_on is not None:
                assert stop_on.wait(120)
                shutdown.request()
            assert left.wait(120)
            until_still(thread)
        state = self.model.state_dict()
        return {name: value.clone() for name, value in state.items() if isinstance(value, torch.Tensor)}


def same(a: dict[str, torch.Tensor] | None, b: dict[str, torch.Tensor] | None) -> bool:
    assert a is not None
    assert b is not None
    return all(torch.equal(a[name], b[name]) for name in a)


class MicroSteps(Loop):
    """Each step is one micro-batch; the optimizer runs after every third."""

    def body(self, step: int) -> None:
        self.backward()
        if step % 3 == 2:
            self.optimizer.step()
            self.optimizer.zero_grad()


class Averaging(Loop):
    """A moving average is updated by hand; no optimizer has it."""

    def __init__(self) -> None:
        super().__init__()
        self.average = copy.deepcopy(self.model)
        self.subjects = {"model": {"live": self.model, "average": self.average}}

    def average_now(self) -> None:
        with torch.no_grad():
            for ours, live in zip(self.average.parameters(), self.model.parameters(), strict=True):
                ours.lerp_(live, 0.1)


class Wide(Loop):
    """Tensors large enough to be lent rather than copied at the boundary."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 2048), nn.BatchNorm1d(2048), nn.Dropout(0.3), nn.Linear(2048, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
