"""Storage that fails: nothing is lost, the error names itself, and the run goes on or ends with the right code."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.medium import Medium
from app.checkpoint.storage.patience import PAUSES_S, StoreUnavailable
from app.clock import Clock
from app.loop.saver import SaveFailed
from tests.engine.harness import Trial, reference
from tests.engine.lines import Failing, attempt, commit, failing_on, resume, steps

if TYPE_CHECKING:
    from collections.abc import Callable


ENOSPC, EIO, EACCES = errno.ENOSPC, errno.EIO, errno.EACCES


@pytest.mark.parametrize("medium", list(Medium))
@pytest.mark.parametrize(("operation", "prefix"), [("create", "shards/"), ("publish", "checkpoints/")])
@pytest.mark.parametrize("number", [ENOSPC, EIO])
def test_a_failed_save_announces_nothing_and_the_next_try_of_the_same_step_succeeds(
    tmp_path, medium, operation, prefix, number
):
    store = Failing(tmp_path, medium)
    line = attempt(store, 1)
    commit(line, 1)
    store.fail = failing_on(operation, prefix, number, 1)
    with pytest.raises(OSError, match="made to fail"):
        commit(line, 2)
    assert steps(store) == [1]
    assert [path.name[:12] for path in (tmp_path / "shards").iterdir()] == ["000000000001"]
    commit(line, 2)
    assert resume(store).head.step == 2


def test_an_error_after_the_manifest_came_into_being_does_not_take_its_shards_away(tmp_path):
    store = Failing(tmp_path)
    line = attempt(store, 1)
    publish = store.inner.publish

    def published_but_told_otherwise(name: str, content: bytes, last_look: Callable[[], None] | None = None) -> None:
        publish(name, content, last_look)
        if name.startswith("checkpoints/"):
            raise OSError(EIO, "the answer got lost")

    store.publish = published_but_told_otherwise
    with pytest.raises(OSError, match="answer got lost"):
        commit(line, 5)
    assert resume(store).head.step == 5


def test_trouble_while_pruning_does_not_undo_the_commit(tmp_path):
    store = Failing(tmp_path)
    line = attempt(store, 1, keep=2)
    store.fail = failing_on("delete", "checkpoints/", EACCES, 1)
    for step in range(1, 5):
        commit(line, step)
    assert steps(store) == [3, 4]


def test_a_hint_that_cannot_be_written_does_not_keep_old_checkpoints_on_a_full_disk(tmp_path, capfd):
    store = Failing(tmp_path)
    line = attempt(store, 1, keep=2)
    store.fail = failing_on("replace", "latest.json", ENOSPC, 99)
    for step in range(1, 5):
        commit(line, step)
    assert steps(store) == [3, 4]
    told = capfd.readouterr().out
    assert "the hint latest.json could not be written" in told
    assert "pruning" not in told


@pytest.mark.parametrize("operation", ["open", "list"])
def test_a_read_error_that_passes_is_survived(tmp_path, operation):
    store = Failing(tmp_path)
    commit(attempt(store, 1), 5)
    store.fail = failing_on(operation, "", EIO, 3)
    assert resume(store).head.step == 5


@pytest.mark.parametrize("operation", ["open", "list"])
def test_a_read_error_that_stays_ends_the_attempt_with_75_and_never_falls_back(tmp_path, operation):
    store = Failing(tmp_path)
    line = attempt(store, 1)
    commit(line, 5)
    newest = commit(line, 6)
    store.fail = failing_on(operation, str(newest.shards) if operation == "open" else "checkpoints/", EACCES, 99)
    with pytest.raises(StoreUnavailable) as end:
        resume(store)
    assert end.value.exit_code == 75
    assert not (tmp_path / "quarantine").exists()


def test_a_mismatch_that_a_second_read_does_not_repeat_is_no_damage(tmp_path):
    store = Failing(tmp_path)
    line = attempt(store, 1)
    commit(line, 5)
    name = commit(line, 6)
    shard = tmp_path / name.shard(0)
    sound, reads = shard.read_bytes(), []

    def flaky(operation: str, path: str) -> None:
        if operation == "open" and path == name.shard(0):
            shard.write_bytes(sound if reads else sound[:-1] + b"\xff")
            reads.append(path)

    store.fail = flaky
    assert resume(store).head.step == 6
    assert len(reads) == 2
    assert not (tmp_path / "quarantine").exists()


def test_a_checkpoint_pruned_by_another_while_it_is_read_is_looked_for_again(tmp_path):
    store = Failing(tmp_path)
    line = attempt(store, 1)
    commit(line, 5)
    name = commit(line, 6)
    newer = attempt(DirectoryStore(tmp_path), 2)

    def pruned(operation: str, path: str) -> None:
        if operation == "open" and path == name.shard(0) and (tmp_path / name.manifest).exists():
            store.inner.delete(name.manifest)
            store.inner.delete(name.shard(0))
            commit(newer, 7)

    store.fail = pruned
    assert resume(store).head.step == 7


class TestSession:
    """The whole session on storage that fails."""

    def test_failed_periodic_saves_do_not_end_the_run_and_change_nothing(self, tmp_path, monkeypatch):
        truth = reference(tmp_path / "truth", steps=12)
        create, calls = DirectoryStore.create, []

        def sometimes_full(self: DirectoryStore, name: str, chunks) -> int:
            calls.append(name)
            if len(calls) in (1, 2):
                raise OSError(ENOSPC, "No space left on device", name)
            return create(self, name, chunks)

        monkeypatch.setattr(DirectoryStore, "create", sometimes_full)
        slept: list[float] = []
        trial = Trial(tmp_path, every_steps=3, steps=12, clock=Clock(now_s=lambda: 0.0, sleep=slept.append))
        trial.run()
        assert trial.done()["weights_sha256"] == truth
        assert slept == list(PAUSES_S[:1])  # by this clock the second try was never due before the end
        assert trial.ledger()[-1]["last_durable_step"] == 12

    def test_a_final_save_that_fails_in_every_try_ends_the_attempt_with_75(self, tmp_path, monkeypatch):
        def full(_self: DirectoryStore, name: str, _chunks: object) -> int:
            raise OSError(ENOSPC, "No space left on device", name)

        monkeypatch.setattr(DirectoryStore, "create", full)
        slept: list[float] = []
        trial = Trial(tmp_path, every_steps=100, steps=2, clock=Clock(sleep=slept.append))
        with pytest.raises(SaveFailed, match="could not be saved in 4 tries") as end:
            trial.run()
        assert (end.value.exit_code, slept) == (75, list(PAUSES_S))
        assert trial.ledger()[-1]["reason"] == "handed-off"
