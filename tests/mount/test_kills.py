"""A session on a real bucket mount, killed in the middle of a shard and of a manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.checkpoint.storage.medium import Medium
from tests.crash import attempts
from tests.crash.attempts import Mode
from tests.crash.line_on_disk import committed
from tests.crash.points import How, Kill

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mount")]
MODE = Mode({"keep": 2}, medium=Medium.MOUNT, steps=6, every_steps=2)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights after an uninterrupted run, in a directory."""
    attempts.warm_up()
    root = tmp_path_factory.mktemp("truth")
    ended = attempts.run(root, MODE)
    assert ended.status == 0, ended.log
    return weights(root)


def weights(root: Path) -> str:
    return str(json.loads((root / "job-task-0/done.json").read_text())["weights_sha256"])


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("label", ["write/write", "write/close", "publish/write", "publish/close"])
def test_killed_there_it_resumes_from_the_newest_and_ends_the_same(folder, truth, label, nth):
    ended = attempts.run(folder, MODE, Kill(How.HALF, label, nth))
    assert ended.was_killed, ended.log
    durable = max((found.step for found in committed(folder / "job-task-0")), default=0)
    second = attempts.run(folder, MODE)
    assert second.status == 0, second.log
    # What the kill cut off at its close is finished by the mount, perhaps a moment later.
    assert (second.resumed_from or 0) in (durable, durable + MODE.every_steps)
    assert weights(folder) == truth
    committed(folder / "job-task-0")
