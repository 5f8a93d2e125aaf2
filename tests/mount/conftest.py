"""One mounted bucket for all tests of this folder, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.medium import Medium
from app.checkpoint.storage.store import Store
from localcloud.toolchain.gcsfuse import why_no_mount
from tests.engine.buckets import emulator, new_bucket
from tests.mount.mounted import NotMounted, mounted


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if reason := why_no_mount():
        pytest.skip(reason)
    with emulator() as url:
        try:
            with mounted(url, new_bucket(url), tmp_path_factory.mktemp("mount")) as where:
                yield where
        except NotMounted as error:
            pytest.skip(f"gcsfuse could not mount here: {error}")


@pytest.fixture
def folder(bucket: Path, request: pytest.FixtureRequest) -> Path:
    """A folder of the bucket for this test alone."""
    made = bucket / f"{abs(hash(request.node.nodeid)):x}"
    made.mkdir()
    return made


@pytest.fixture
def stores(folder: Path) -> Callable[[str], Store]:
    """As in tests/engine/test_store_conformance.py."""

    def store(line: str) -> Store:
        (folder / line).mkdir(parents=True)
        found = DirectoryStore(folder / line)
        assert found.medium is Medium.MOUNT
        return found

    return store


@pytest.fixture
def store(stores: Callable[[str], Store]) -> Store:
    return stores("job-task-0")
