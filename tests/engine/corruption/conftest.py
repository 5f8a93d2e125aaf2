"""What all tests of damaged checkpoints share."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.checkpoint.storage.directory import DirectoryStore
from tests.engine.lines import attempt, commit


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """Steps 10 and 20 are committed; 20 is the one to be damaged."""
    root = tmp_path / "line"
    root.mkdir()
    first = attempt(DirectoryStore(root), 1)
    commit(first, 10)
    commit(first, 20)
    return root
