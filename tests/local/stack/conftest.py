"""A local cloud of the test's own, and this project's program on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.testing import running_cloud
from tests.local.stack.support import LocalStack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    """An empty stack on an empty cloud."""
    with running_cloud(tmp_path / "cloud") as cloud:
        yield LocalStack(cloud, tmp_path)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A deployed stack, shared by a file's tests; each leaves it deployed."""
    folder = tmp_path_factory.mktemp("stack")
    with running_cloud(folder / "cloud") as cloud:
        stack = LocalStack(cloud, folder)
        stack.on_stack("up", "--yes", "--skip-preview")
        yield stack
