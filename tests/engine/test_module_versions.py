"""A module that migrates states of its older versions does not migrate one of its own version."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from app.loop.program import Program
from tests.engine.lines import round_trip


class Turned(nn.Module):
    """Version 1 kept its weight the other way round."""

    _version = 2

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0).reshape(2, 2))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        if (local_metadata.get("version") or 1) < 2:
            state_dict[prefix + "weight"] = state_dict[prefix + "weight"].T
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def program() -> tuple[nn.Module, Program]:
    model = nn.Sequential(nn.Linear(2, 2), Turned())
    return model, Program(model=model)


def test_a_state_comes_back_with_the_versions_of_the_modules_that_wrote_it(store):
    _, before = program()
    model, after = program()
    after.restore(round_trip(store, before.state(before.capture(1))))
    assert model[1].weight.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("written", [1, 2])
def test_a_state_of_an_older_version_is_migrated(store, monkeypatch, written):
    _, before = program()
    monkeypatch.setattr(Turned, "_version", written)
    state = round_trip(store, before.state(before.capture(1)))
    monkeypatch.setattr(Turned, "_version", 2)
    model, after = program()
    after.restore(state)
    assert model[1].weight.tolist() == ([[0, 2], [1, 3]] if written == 1 else [[0, 1], [2, 3]])


def test_a_checkpoint_that_tells_no_versions_loads_as_it_did(store):
    _, before = program()
    state = before.state(before.capture(1))
    del state["versions"]
    model, after = program()
    after.restore(round_trip(store, state))
    assert model[1].weight.tolist() == [[0, 2], [1, 3]]
