"""What all tests of the engine share."""

from __future__ import annotations

import os

import pytest
import torch

torch.set_num_threads(1)  # on tensors this small more threads only spin


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is asked in tests/unit/app/test_directory.py; here a busy disk would only make every fsync slow."""
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
