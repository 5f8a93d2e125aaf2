"""What all tests of the engine share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from app.checkpoint.storage.directory import DirectoryStore
from localcloud.testing import running_cloud

torch.set_num_threads(1)  # on tensors this small more threads only spin


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability is asked in tests/unit/app/test_directory.py; here a busy disk would only make every fsync slow."""
    monkeypatch.setattr(os, "fsync", lambda _fd: None)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """An empty one."""
    return DirectoryStore(tmp_path)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a local cloud."""
    with running_cloud(tmp_path_factory.mktemp("cloud") / "state") as cloud:
        yield cloud.url


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where a line is to be; `begin` of loops.py makes it."""
    return tmp_path / "line"


@pytest.fixture
def fields_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is JSON, as on Cloud Run."""
    monkeypatch.setenv("CLOUD_RUN_JOB", "job")
