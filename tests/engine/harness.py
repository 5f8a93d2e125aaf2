"""A small program with everything that makes an exact resume hard, and ways to interrupt it in this process."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import nn

from app import session, startup
from app.clock import REAL, Clock
from app.contract import Task
from app.data import Batches
from app.loop.run import Run
from app.shutdown import Shutdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEPS = 24
ACCUMULATE = 2


class Interrupted(BaseException):
    """Stands for a kill: nothing is saved on the way out."""


class Net(nn.Module):
    """Dropout, BatchNorm, and an output tied to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.leave = nn.Linear(16, 8, bias=False)
        self.leave.weight = nn.Parameter(torch.empty(8, 16))
        nn.init.normal_(self.leave.weight, std=0.1)
        self.again = nn.Linear(16, 8, bias=False)
        self.again.weight = self.leave.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.dropout(self.norm(self.enter(x)).relu(), 0.2, self.training)
        return self.leave(hidden) + self.again(hidden)


class Noisy(torch.utils.data.Dataset[torch.Tensor]):
    """Augments from the global generator, as data sets do."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((8,), index / 40) + 0.1 * torch.randn(8)


@dataclass
class Trial:
    """One attempt at the whole work in `root`; `at(place, step)` is called at named places of each step."""

    root: Path
    every_steps: int = 5
    steps: int = STEPS
    workers: int = 0
    shutdown: Shutdown | None = None
    at: Callable[[str, int], None] = lambda _place, _step: None
    fused: bool = False
    frozen: bool = False
    """The first layer is not trained: its tensors stay as they are."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """More arguments of the session."""
    optimizer_class: type[torch.optim.AdamW] = torch.optim.AdamW
    clock: Clock = REAL
    step: int = 0
    """The one it is in."""
    model: nn.Module | None = None
    """Of the attempt that was begun."""

    def run(self) -> None:
        torch.manual_seed(7)
        self.model = model = Net()
        model.enter.requires_grad_(not self.frozen)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = self.optimizer_class(trained, lr=1e-2, fused=self.fused)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-2, total_steps=self.steps + 1)
        loader = torch.utils.data.DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=self.workers)
        batches = Batches(loader, seed=3)
        optimizer.register_step_post_hook(lambda *_: self.at("updated", self.step))
        task = Task(self.root)
        shutdown = self.shutdown or Shutdown()
        start = startup.begin(task, startup.open_store(task), self.clock)
        with session(
            model=model,
            optimizer=optimizer,
            scheduler=scheduler,
            data=batches,
            total_steps=self.steps,
            every_steps=self.every_steps,
            start=start,
            shutdown=shutdown,
            **self.options,
        ) as run:
            self._loop(run, model, optimizer, scheduler, batches)

    def _loop(self, run: Run, model: nn.Module, optimizer, scheduler, batches: Batches) -> None:
        for step in run.steps():
            self.step = step
            self.at("began", step)
            for _ in range(ACCUMULATE):
                x = next(batches)
                (model(x) - x).square().mean().backward()
            self.at("backward", step)
            optimizer.step()
            self.at("stepped", step)
            scheduler.step()
            optimizer.zero_grad()
            self.at("ended", step)

    @property
    def line(self) -> Path:
        return self.root / "job-task-0"

    def done(self) -> dict[str, object]:
        return json.loads((self.line / "done.json").read_text())

    def ledger(self) -> list[dict[str, object]]:
        return [json.loads(path.read_text()) for path in sorted((self.line / "ledger").iterdir())]


def reference(root: Path, **options: object) -> str:
    """The weights' hash after an uninterrupted run."""
    root.mkdir()
    trial = Trial(root, **options)  # type: ignore[arg-type]
    trial.run()
    return str(trial.done()["weights_sha256"])


def run_until_interrupted(trial: Trial, place: str, step: int) -> None:
    """Kill the attempt there: an exception that nothing saves for."""

    def at(here: str, now: int) -> None:
        if (here, now) == (place, step):
            raise Interrupted

    trial.at = at
    try:
        trial.run()
    except Interrupted:
        return
    raise AssertionError(f"never came to {place} of step {step}")


def run_until_stopped(trial: Trial, place: str, step: int, *, grace_s: float = 10.0) -> int:
    """A stop comes exactly there; returns the exit code. The attempt's threads stay where the stop held them."""
    asked, left = threading.Event(), threading.Event()
    codes: list[int] = []

    def exit_process(code: int) -> NoReturn:
        codes.append(code)
        left.set()
        while True:  # a process that has left does nothing more
            threading.Event().wait()

    shutdown = Shutdown(exit_process=exit_process, end_children=lambda: None, grace_s=grace_s)

    def at(here: str, now: int) -> None:
        if (here, now) == (place, step):
            asked.set()
            shutdown.request()

    trial.shutdown, trial.at = shutdown, at
    attempt = threading.Thread(target=trial.run, daemon=True)
    attempt.start()
    if not asked.wait(timeout=120):  # torch's first optimizer imports for many seconds on a busy machine
        raise AssertionError(f"never came to {place} of step {step}")
    if not left.wait(timeout=grace_s + 5):
        raise AssertionError("the stop did not end the attempt")
    until_still(attempt)
    return codes[0]


def until_still(attempt: threading.Thread) -> None:
    """Until the thread of an attempt that has "left" is held for good: in a process of its own it would be gone.

    The generators are shared by the whole test process, and the next attempt must not find them drawn from.
    """
    deadline = time.monotonic() + 60
    while attempt.is_alive() and not STILL & set(functions_of(attempt)):
        assert time.monotonic() < deadline, "the attempt goes on after it left"
        time.sleep(0.001)


STILL = {"_hold", "exit_process", "leave"}
"""Functions that a thread never comes back from: the gate's, the one that stands for os._exit, and a late leaver's."""


def functions_of(thread: threading.Thread) -> Iterator[str]:
    """Names on the thread's stack."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back
