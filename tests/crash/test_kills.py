"""Real SIGTERMs at random instants; then resume and compare."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def truth(server, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("truth")
    assert server.run(root) == 0, (root / "log.txt").read_text()
    return weights(root)


def weights(root: Path) -> str:
    return str(json.loads((root / "job-task-0/done.json").read_text())["weights_sha256"])


def ledger(root: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((root / "job-task-0/ledger").iterdir())]


@pytest.mark.parametrize("seed", range(14))
def test_stopped_at_a_random_instant_it_leaves_in_time_with_143_and_loses_no_step(server, tmp_path, truth, seed):
    chance = random.Random(1000 + seed)
    pid = server.start(tmp_path, every_steps=100, step_s=0.04)
    time.sleep(chance.uniform(0.05, 0.6))
    asked = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    status = server.wait()
    took_s = time.monotonic() - asked
    log = (tmp_path / "log.txt").read_text()
    assert status in (143, 0), log
    assert took_s < 10
    if status == 143:
        assert "Received SIGTERM signal from platform. Initiating graceful shutdown..." in log
        reached = [record["last_step"] for record in ledger(tmp_path)] if (tmp_path / "job-task-0").exists() else []
        assert server.run(tmp_path) == 0, log
        resumed = ledger(tmp_path)[-1]["resumed_from_step"] or 0
        assert resumed >= max(reached, default=0)
    assert weights(tmp_path) == truth
