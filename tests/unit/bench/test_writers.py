"""Both ways to write beside a training save the same state, and tell when they could not."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import torch

from bench import states
from bench.engine import EngineLine
from bench.writers import Beside, by_a_process, by_a_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOTH = pytest.mark.parametrize("make", [by_a_thread, by_a_process])


@BOTH
def test_what_training_did_after_a_save_began_is_not_in_it(make: Callable[..., Beside], tmp_path: Path):
    training = states.Training(2**20)
    beside = make(training, tmp_path / "line")
    saved = {name: value.clone() for name, value in training.model.state_dict().items()}
    beside.begin()
    training.step()
    beside.wait()
    beside.close()

    found = EngineLine(tmp_path / "line").restore()["model"]
    assert found.keys() == saved.keys()
    assert all(torch.equal(found[name], saved[name]) for name in saved)


@BOTH
def test_a_save_that_fails_is_no_sample(make: Callable[..., Beside], tmp_path: Path):
    beside = make(states.Training(2**20), tmp_path / "line")
    shutil.rmtree(tmp_path / "line")
    (tmp_path / "line").touch()
    beside.begin()
    with pytest.raises(RuntimeError, match=r"NotADirectory|is no directory"):
        beside.wait()
    beside.close()
