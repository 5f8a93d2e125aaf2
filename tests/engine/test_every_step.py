"""Interrupted at each of 50 consecutive steps, a run has the weights of an uninterrupted one at every step.

One line lives through 51 attempts: each resumes, does one step, saves, and is killed in the middle of the next.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from app import session, startup
from app.contract import Task
from app.data import Batches
from app.provenance import weights_sha256
from app.shutdown import Shutdown, end_children
from tests.engine.harness import Interrupted

INTERRUPTED = 50
STEPS = INTERRUPTED + 3
PLACES = ("began", "backward", "updated")
SNAPSHOTS = ("eager", "deferred", "streaming", "auto")


class Numbers(torch.utils.data.Dataset[torch.Tensor]):
    """Augmented from the worker's own generator."""

    def __len__(self) -> int:
        return 72

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), index / 72) + 0.1 * torch.randn(4)


class Program:
    """A small training with one ingredient that makes an exact resume hard."""

    def __init__(self, ingredient: str) -> None:
        torch.manual_seed(5)
        self.ingredient = ingredient
        between = {"dropout": nn.Dropout(0.4), "BatchNorm": nn.BatchNorm1d(8)}.get(ingredient, nn.Tanh())
        self.model = nn.Sequential(nn.Linear(4, 8), between, nn.Linear(8, 4))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.02)
        self.subjects: dict[str, object] = {"model": self.model, "optimizer": self.optimizer}
        self.average = self.scheduler = self.scaler = self.batches = None
        if ingredient == "moving average":
            self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
            self.subjects["model"] = {"live": self.model, "average": self.average}
        if ingredient == "scheduler":
            self.scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(self.optimizer, T_0=7)
            self.subjects["scheduler"] = self.scheduler
        if ingredient == "bf16 autocast and scaler":
            self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
            self.subjects["scaler"] = self.scaler
        if ingredient == "data workers":
            loader = torch.utils.data.DataLoader(Numbers(), batch_size=6, shuffle=True, num_workers=2)
            self.batches = self.subjects["data"] = Batches(loader, seed=3)

    def accumulates(self, step: int) -> bool:
        """Over three steps: two of three boundaries lie in the middle of it."""
        return self.ingredient == "gradient accumulation" and step % 3 != 2

    def step(self, step: int, at: Callable[[str], None]) -> None:
        at("began")
        x = next(self.batches) if self.batches else torch.randn(6, 4)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.scaler is not None):
            loss = (self.model(x) - x).square().mean()
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        at("backward")
        if self.accumulates(step):
            return
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        at("updated")
        if self.scheduler:
            self.scheduler.step()
        if self.average:
            self.average.update_parameters(self.model)
        self.optimizer.zero_grad()

    @property
    def weights(self) -> str:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        average = self.average.state_dict() if self.average else {}
        return weights_sha256(tensors | {f"average.{name}": tensor for name, tensor in average.items()})


def attempt(root: Path, ingredient: str, dies_in: int | None = None) -> dict[int, str]:
    """Step -> hash of the weights at its beginning, for the steps of one attempt, which dies in that step."""
    program = Program(ingredient)
    told = dict[int, str]()
    place = PLACES[(dies_in or 0) % len(PLACES)]

    def at(here: str) -> None:
        # An accumulating step has no update to die after.
        if step == dies_in and here == ("backward" if place == "updated" and program.accumulates(step) else place):
            raise Interrupted

    task = Task(root)
    try:
        with session(
            **program.subjects,  # type: ignore[arg-type]
            total_steps=STEPS,
            every_steps=1,
            keep=2,
            log_every=STEPS,
            snapshot=SNAPSHOTS[(dies_in or 0) % len(SNAPSHOTS)],
            start=startup.begin(task, startup.open_store(task)),
            shutdown=Shutdown(),
        ) as run:
            for step in run.steps():
                told[step] = program.weights
                program.step(step, at)
    except Interrupted:
        assert dies_in is not None
    return told


def attempt_of_its_own(root: Path, ingredient: str, dies_in: int | None = None) -> dict[int, str]:
    """In a fork: data workers are slow to end in a process that lives on."""
    told = root / "told.json"
    pid = os.fork()
    if pid == 0:
        try:
            told.write_text(json.dumps(attempt(root, ingredient, dies_in)))
        finally:
            end_children()
            os._exit(0)
    os.waitpid(pid, 0)
    return {int(step): weights for step, weights in json.loads(told.read_text()).items()}


INGREDIENTS = (
    *("dropout", "BatchNorm", "gradient accumulation", "scheduler", "bf16 autocast and scaler", "moving average"),
    "data workers",
)


@pytest.mark.parametrize("ingredient", INGREDIENTS)
def test_interrupted_at_every_one_of_50_steps_the_weights_are_those_of_an_uninterrupted_run(tmp_path, ingredient):
    lives = attempt_of_its_own if ingredient == "data workers" else attempt
    (tmp_path / "whole").mkdir()
    (tmp_path / "line").mkdir()
    truth = lives(tmp_path / "whole", ingredient)
    assert len(set(truth.values())) > INTERRUPTED / 4, "the weights hardly change, so they prove nothing"
    for step in range(INTERRUPTED):
        told = lives(tmp_path / "line", ingredient, dies_in=step + 1)
        assert told == {step: truth[step], step + 1: truth[step + 1]}
    rest = lives(tmp_path / "line", ingredient)
    assert rest == {step: truth[step] for step in range(INTERRUPTED, STEPS)}
    done = [json.loads((tmp_path / root / "job-task-0/done.json").read_text()) for root in ("whole", "line")]
    assert done[0]["weights_sha256"] == done[1]["weights_sha256"]


@pytest.mark.parametrize("ingredient", INGREDIENTS[:2])
def test_what_is_not_restored_is_seen(tmp_path, monkeypatch, ingredient):
    """The comparison above can fail: without the generators, dropout and the data go other ways."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "line").mkdir()
    truth = attempt(tmp_path / "whole", ingredient)
    attempt(tmp_path / "line", ingredient, dies_in=4)
    monkeypatch.setattr("app.loop.rng.restore", lambda _saved: None)
    assert attempt(tmp_path / "line", ingredient) != {step: truth[step] for step in range(4, STEPS)}
