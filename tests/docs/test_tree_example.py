"""The Trainer example of docs/checkpoints.md, run as it stands with a stand-in for the Trainer that it names."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

TREE = Path(__file__).parents[2]


@dataclass
class TrainingArguments:
    output_dir: str
    save_total_limit: int


class TrainerCallback:
    """The real one has a method for each event."""


class Trainer:
    """Saves twice, keeps one, and calls back after each save as the real one does; `seen` is where each one began."""

    seen: list[int] = []  # noqa: RUF012

    def __init__(self, model: object, args: TrainingArguments, *, train_dataset: object, callbacks: list[Any]) -> None:
        self.args, self.callbacks = args, callbacks

    def train(self, *, resume_from_checkpoint: bool) -> None:
        out = Path(self.args.output_dir)
        begun = max((int(path.name.partition("-")[2]) for path in out.glob("checkpoint-*")), default=0)
        assert resume_from_checkpoint is (begun > 0)
        self.seen.append(begun)
        for step in (begun + 5, begun + 10):
            for old in out.glob("checkpoint-*"):
                shutil.rmtree(old)
            (out / f"checkpoint-{step}").mkdir(parents=True)
            (out / f"checkpoint-{step}/model.safetensors").write_bytes(b"w" * step)
            for each in self.callbacks:
                each.on_save(self.args, SimpleNamespace(global_step=step), control=None)


def test_an_attempt_goes_on_where_the_one_before_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = (TREE / "docs/checkpoints.md").read_text().split("## Directory trees")[1].split("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    module = ModuleType("transformers")
    vars(module).update(Trainer=Trainer, TrainerCallback=TrainerCallback, TrainingArguments=TrainingArguments)
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.setattr(Trainer, "seen", [])
    (tmp_path / "line").mkdir()
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path / "line"))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # as it was, once this has ended
    monkeypatch.chdir(tmp_path)
    for _attempt in range(3):
        (tmp_path / "out/checkpoint-99").mkdir(parents=True)  # a machine that is used again
        exec(compile(example, "docs/checkpoints.md", "exec"), {"model": None, "data": None})  # noqa: S102
    assert Trainer.seen == [0, 10, 20]
    ledger = [json.loads(path.read_text()) for path in (tmp_path / "line/job-task-0/ledger").iterdir()]
    assert [record["reason"] for record in ledger] == ["finished"] * 3
