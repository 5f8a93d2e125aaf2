"""CHECKPOINT_DIR=gs://...: a session, and a job's process, live on a bucket as they do on a directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.checkpoint.names import CheckpointName
from app.checkpoint.storage import opening
from app.checkpoint.storage.store import STAGED, read
from app.contract import ExitCode
from app.place import BucketPath
from tests.engine.buckets import new_bucket
from tests.engine.harness import Trial, reference, run_until_interrupted, run_until_stopped

if TYPE_CHECKING:
    from app.checkpoint.storage.store import Store

pytestmark = [pytest.mark.xdist_group("buckets"), pytest.mark.slow]
REPOSITORY = Path(__file__).parents[2]


@dataclass
class OnBucket(Trial):
    """A trial whose root is gs://..."""

    @property
    def store(self) -> Store:
        return opening.open_store(self.line)

    def done(self) -> dict[str, Any]:
        return json.loads(read(self.store, "done.json"))

    def checkpoints(self) -> list[CheckpointName]:
        found = (CheckpointName.of_manifest(entry.name) for entry in self.store.list("checkpoints/"))
        return [name for name in found if name]


@pytest.fixture
def root(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    return BucketPath(new_bucket(url), "team/runs")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    return reference(tmp_path_factory.mktemp("reference") / "root")


def test_killed_and_stopped_again_and_again_it_ends_with_the_weights_of_an_uninterrupted_run(root, uninterrupted):
    run_until_interrupted(OnBucket(root), "backward", 8)
    run_until_interrupted(OnBucket(root), "updated", 13)
    assert run_until_stopped(OnBucket(root), "backward", 17) == ExitCode.STOPPED
    trial = OnBucket(root)
    trial.run()
    assert trial.done()["weights_sha256"] == uninterrupted
    assert trial.store.list(STAGED) == []


def test_only_what_is_kept_stays_and_its_checksums_are_the_services_own(root):
    trial = OnBucket(root)
    trial.run()
    names = trial.checkpoints()
    assert [name.step for name in names] == [15, 20, 24]
    shards = {entry.name.split("/")[1] for entry in trial.store.list("shards/")}
    assert shards == {str(name) for name in names}
    head = json.loads(read(trial.store, names[-1].manifest).splitlines()[1])
    assert head["checked"] == "size+crc32c"


def test_a_changed_byte_is_found_recorded_and_the_checkpoint_before_is_used(root, uninterrupted):
    run_until_interrupted(OnBucket(root), "began", 12)
    trial = OnBucket(root)
    newest = trial.checkpoints()[-1]
    shard = bytearray(read(trial.store, newest.shard(0)))
    shard[-1] ^= 1
    trial.store.delete(newest.shard(0))
    trial.store.create(newest.shard(0), [memoryview(shard)])
    seen = list[int]()
    trial.at = lambda place, step: seen.append(step) if place == "began" else None
    trial.run()
    assert seen[0] == 5
    assert "crc32c" in json.loads(read(trial.store, newest.record))["reason"]
    assert trial.done()["weights_sha256"] == uninterrupted


class Job:
    """`python -m app countdown` on the bucket."""

    def __init__(self, root: object, *flags: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app", "countdown", "--steps", "40", "--save-every", "4", *flags],
            env={**os.environ, "CHECKPOINT_DIR": str(root), "OMP_NUM_THREADS": "1"},
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = list[str]()

    def until(self, text: str) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return
        raise AssertionError(f"it ended without {text!r}:\n{''.join(self.lines)}")

    def end(self) -> tuple[int, str]:
        assert self.process.stdout
        self.lines.extend(self.process.stdout)
        return self.process.wait(), "".join(self.lines)


def test_a_killed_job_resumes_and_finishes(root):
    first = Job(root, "--step-delay", "0.2")
    first.until("is durable")
    first.process.kill()
    first.end()
    code, told = Job(root).end()
    assert code == ExitCode.DONE
    assert "Resuming from checkpointed step 4." in told or "Resuming from checkpointed step 8." in told


def test_a_job_that_was_frozen_and_replaced_commits_nothing_more_and_ends_with_78(root):
    frozen = Job(root, "--step-delay", "0.2")
    frozen.until("is durable")
    frozen.process.send_signal(signal.SIGSTOP)
    newer = Job(root, "--step-delay", "0.2")
    newer.until("is durable")
    before = [name for name in OnBucket(root).checkpoints() if name.epoch == 1]
    frozen.process.send_signal(signal.SIGCONT)
    code, told = frozen.end()
    assert code == ExitCode.REFUSED
    assert "works on this checkpoint line now" in told
    assert set(before) >= {name for name in OnBucket(root).checkpoints() if name.epoch == 1}
    assert newer.end()[0] == ExitCode.DONE
