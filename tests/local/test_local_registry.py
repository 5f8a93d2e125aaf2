"""The push: other requests go on while files are copied, and what changes meanwhile is noticed."""

import asyncio
import threading
from pathlib import Path

import pytest

from localcloud.build import local_registry
from localcloud.build.dockerfile import BuildError, Stage
from localcloud.build.local_registry import LocalRegistry
from localcloud.build.snapshot import Snapshot
from localcloud.kinds import Kind
from localcloud.store import Store

REPOSITORY = "projects/p/locations/l/repositories/apps"
NAME = "l-docker.pkg.dev/p/apps/app:v1"
DEADLINE_S = 20


class Slow:
    """A registry whose copying waits until it is let go."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = Store(folder / "state.sqlite")
        self.store.put(Kind.REPOSITORY, REPOSITORY, {"name": REPOSITORY})
        self.images = folder / "images"
        self.registry = LocalRegistry(self.store, self.images)
        self.copying, self.go_on = threading.Event(), threading.Event()
        (folder / "built").mkdir()
        (folder / "built/file").write_text("content")
        self.image = Snapshot(folder / "built", Stage("python", ""), f"sha256:{'0' * 64}")
        place = local_registry._place

        def slow(source: Path, target: Path) -> int:
            self.copying.set()
            assert self.go_on.wait(DEADLINE_S), "nothing else ran while files were copied"
            return place(source, target)

        monkeypatch.setattr(local_registry, "_place", slow)

    async def push(self) -> asyncio.Future[object]:
        """A push that has begun to copy."""
        pushing = asyncio.ensure_future(self.registry.push(NAME, self.image))
        assert await asyncio.to_thread(self.copying.wait, DEADLINE_S)
        return pushing

    def documents(self) -> list[str]:
        return self.store.names(Kind.IMAGE)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(tmp_path, monkeypatch)


def test_other_requests_go_on_while_files_are_copied(slow: Slow) -> None:
    async def scenario() -> None:
        pushing = await slow.push()
        assert slow.documents() == []
        slow.go_on.set()
        await pushing

    asyncio.run(scenario())
    assert slow.documents() == [f"{REPOSITORY}/dockerImages/app@{slow.image.digest}"]
    assert (slow.images / ("0" * 64) / "file").read_text() == "content"


def test_a_repository_that_is_deleted_during_a_push_gets_no_image(slow: Slow) -> None:
    async def scenario() -> None:
        pushing = await slow.push()
        slow.store.delete(Kind.REPOSITORY, REPOSITORY)
        slow.go_on.set()
        with pytest.raises(BuildError, match="Repository 'apps' not found in p/l"):
            await pushing

    asyncio.run(scenario())
    assert slow.documents() == []
