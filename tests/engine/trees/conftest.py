"""What all tests of directory trees share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.checkpoint.line import Line
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.trees import target as tree_target
from tests.engine.lines import attempt
from tests.engine.trees.files import write


@pytest.fixture(autouse=True)
def _no_power_cuts_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the conftest.py above; test_restore.py asks for it."""
    monkeypatch.setattr(tree_target, "sync_file_system", lambda _path: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "line").mkdir()
    return tmp_path


@pytest.fixture
def line(root: Path) -> Line:
    return attempt(DirectoryStore(root / "line"), 1)


@pytest.fixture
def out(root: Path) -> Path:
    """What a trainer might write."""
    tree = root / "out"
    write(tree, {"checkpoint-10/model.safetensors": b"m" * 3000, "checkpoint-10/optimizer.pt": os.urandom(70_000)})
    write(tree, {"checkpoint-10/trainer_state.json": b"{}", "logs/empty": b"", "run.sh": b"#!/bin/sh\n"})
    (tree / "run.sh").chmod(0o755)
    (tree / "logs/none/deeper").mkdir(parents=True)
    (tree / "last").symlink_to("checkpoint-10")
    (tree / "logs/best").symlink_to("../checkpoint-10/model.safetensors")
    os.utime(tree / "checkpoint-10", ns=(1_600_000_000_123_456_789,) * 2)
    return tree
