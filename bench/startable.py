"""The engine's part in a program's start; like engine.py, but without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import session, startup
from app.checkpoint.prefetch import Prefetch
from app.contract import Task

if TYPE_CHECKING:
    from pathlib import Path

    from app.startup import Start
    from bench.states import Training


def open_line(root: Path) -> Start:
    """An attempt on the line below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    task = Task(root)
    return startup.begin(task, startup.open_store(task))


def open_line_early(root: Path) -> Start:
    """As `python -m app` does it before torch is imported: the newest checkpoint is read meanwhile."""
    root.mkdir(parents=True, exist_ok=True)
    task = Task(root)
    store = startup.open_store(task)
    return startup.begin(task, store, ahead=Prefetch(store))


def enter(start: Start, training: Training) -> None:
    """Resume and come to the first step."""
    entered = session(model=training.model, optimizer=training.optimizer, total_steps=10**9, start=start)
    next(entered.__enter__().steps())


def prepare(root: Path, training: Training) -> None:
    """A line with one checkpoint, saved by a session."""
    start = open_line(root)
    with session(
        model=training.model, optimizer=training.optimizer, total_steps=10**9, every_steps=1, start=start
    ) as run:
        for step in run.steps():
            if step == 2:  # the boundary before saved step 1, and this one waited for it
                break
            training.step()
