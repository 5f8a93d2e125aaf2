"""Storage that fails: nothing is lost, the error names itself, and the run goes on or ends with the right code."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app import startup
from app.checkpoint.epochs import CLAIMS, Superseded
from app.checkpoint.storage.directory import DirectoryStore, Medium
from app.checkpoint.storage.patience import PAUSES_S, StoreUnavailable
from app.clock import Clock
from app.contract import Refusal, Task
from app.loop.saver import SaveFailed
from tests.engine.harness import Trial, reference
from tests.engine.lines import Failing, attempt, commit, resume, steps

if TYPE_CHECKING:
    from collections.abc import Callable

ENOSPC, EIO, EACCES = errno.ENOSPC, errno.EIO, errno.EACCES


def failing_on(operation: str, prefix: str, number: int, times: int):
    """A `fail` that raises OSError(number) the first `times` times."""
    left = [times]

    def fail(here: str, name: str) -> None:
        if here == operation and name.startswith(prefix) and left[0] > 0:
            left[0] -= 1
            raise OSError(number, "made to fail", name)

    return fail


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


class TestFencing:
    def test_an_older_attempt_that_wakes_up_cannot_commit(self, tmp_path):
        store = DirectoryStore(tmp_path)
        zombie = attempt(store, 1)
        commit(zombie, 10)
        commit(attempt(store, 2), 12)
        with pytest.raises(Superseded) as end:
            commit(zombie, 20)
        assert end.value.exit_code == 78
        assert str(zombie.attempt) in str(end.value)
        assert resume(store).head.step == 12
        assert not list((tmp_path / "shards").glob("000000000020-*"))

    def test_even_a_zombies_later_step_does_not_outrank_the_successor(self, tmp_path, monkeypatch):
        store = DirectoryStore(tmp_path)
        zombie = attempt(store, 1)
        commit(attempt(store, 2), 12)
        monkeypatch.setattr("app.checkpoint.epochs.superseded_by", lambda _store, _attempt: None)  # it looked too early
        commit(zombie, 20)
        assert resume(store).head.step == 12

    def test_of_two_attempts_with_one_epoch_exactly_one_goes_on(self, tmp_path):
        store = DirectoryStore(tmp_path)
        lines = [attempt(store, 1), attempt(store, 1)]
        outcomes = []
        for line in lines:
            try:
                outcomes.append(str(commit(line, 5)))
            except Superseded:
                outcomes.append("superseded")
        assert outcomes.count("superseded") == 1

    def test_an_older_attempt_does_not_prune(self, tmp_path):
        from app.checkpoint import retention

        store = DirectoryStore(tmp_path)
        zombie = attempt(store, 1)
        names = [commit(zombie, step) for step in (1, 2)]
        attempt(store, 2)
        with pytest.raises(Superseded):
            retention.prune(store, zombie.attempt, names)
        assert steps(store) == [1, 2]


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

    def test_a_checkpoint_of_another_model_is_refused_and_both_sides_are_named(self, tmp_path):
        import torch

        from app import session

        def begin():
            task = Task(tmp_path)
            return startup.begin(task, startup.open_store(task))

        with session(total_steps=1, model=torch.nn.Linear(2, 2), start=begin()) as run:
            list(run.steps())
        other = session(total_steps=9, model=torch.nn.Linear(2, 3), start=begin())
        with pytest.raises(Refusal) as refusal, other:
            pass
        assert refusal.value.exit_code == 78
        assert "6 values" in str(refusal.value)
        assert "9 values" in str(refusal.value)
        assert "--fork" in str(refusal.value)


class TestOpening:
    def test_a_missing_mount_is_refused_and_not_made(self, tmp_path):
        with pytest.raises(Refusal, match="does not exist"):
            startup.open_store(Task(tmp_path / "absent"))
        assert not (tmp_path / "absent").exists()

    def test_a_file_in_its_place_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(Refusal, match="not a directory"):
            startup.open_store(Task(tmp_path / "file"))

    @pytest.mark.parametrize(
        ("number", "word"),
        [(errno.EROFS, "read-only"), (ENOSPC, "full"), (EACCES, "objectUser"), (errno.EDQUOT, "quota")],
    )
    def test_a_store_that_cannot_be_written_is_refused_with_the_way_out(self, tmp_path: Path, number, word):
        store = Failing(tmp_path)
        store.fail = failing_on("publish", "ledger/", number, 99)
        with pytest.raises(Refusal, match=word) as refusal:
            startup.begin(Task(tmp_path), store)
        assert str(tmp_path) in str(refusal.value)

    def test_a_store_that_fails_for_now_is_tried_again_and_then_left_to_a_retry(self, tmp_path):
        slept: list[float] = []
        clock = Clock(sleep=slept.append)
        store = Failing(tmp_path)
        store.fail = failing_on("publish", "ledger/", EIO, 2)
        assert startup.begin(Task(tmp_path), store, clock).ledger.attempt.epoch == 1
        assert slept == list(PAUSES_S[:2])
        store.fail = failing_on("publish", "ledger/", EIO, 99)
        with pytest.raises(StoreUnavailable):
            startup.begin(Task(tmp_path), store, clock)
        assert slept == [*PAUSES_S[:2], *PAUSES_S]

    @pytest.mark.parametrize("name", [".staging", "checkpoints", "ledger", "shards", "quarantine"])
    def test_a_file_in_the_place_of_a_folder_is_refused_by_name(self, tmp_path, name):
        (tmp_path / "job-task-0").mkdir()
        (tmp_path / "job-task-0" / name).write_text("")
        task = Task(tmp_path)
        with pytest.raises(Refusal, match=name):
            startup.begin(task, startup.open_store(task))

    @pytest.mark.parametrize("name", ["done.json", "verdict.json"])
    def test_a_folder_in_the_place_of_a_document_is_refused_by_name(self, tmp_path, name):
        (tmp_path / "job-task-0" / name).mkdir(parents=True)
        task = Task(tmp_path, execution="exec-1")
        store = startup.open_store(task)
        with pytest.raises(Refusal, match=name):
            startup.begin(task, store) if name == "verdict.json" else startup.finished(task, store, 5)

    @pytest.mark.parametrize("kind", ["file", "link to itself"])
    def test_a_line_that_is_no_folder_is_refused(self, tmp_path, kind):
        line = tmp_path / "job-task-0"
        line.write_text("") if kind == "file" else line.symlink_to(line)
        with pytest.raises(Refusal, match="job-task-0"):
            startup.open_store(Task(tmp_path))

    @pytest.mark.parametrize(("directory", "job"), [("", "x" * 300), ("y" * 300, "job")])
    def test_a_name_too_long_for_a_file_is_refused(self, tmp_path, directory, job):
        with pytest.raises(Refusal, match="too long"):
            startup.open_store(Task(tmp_path / directory, job=job))

    def test_a_claim_that_never_succeeds_is_given_up_and_says_what_hindered_it(self, tmp_path):
        store, calls = Failing(tmp_path), []

        def taken(operation: str, name: str) -> None:
            if operation == "publish":
                calls.append(name)
                raise FileExistsError(errno.EEXIST, "File exists", name)

        store.fail = taken
        with pytest.raises(Refusal, match=r"ledger/e0001-\w+\.json could not be created"):
            startup.begin(Task(tmp_path), store)
        assert len(calls) == CLAIMS


class TestFinished:
    """done.json is believed only if it is whole, and a checkpoint agrees."""

    @pytest.fixture
    def store(self, tmp_path):
        task = Task(tmp_path)
        store = startup.open_store(task)
        commit(attempt(store, 1), 20)
        return store

    def finished(self, tmp_path, store, content: str):
        (tmp_path / "job-task-0/done.json").write_text(content)
        return startup.finished(Task(tmp_path), store, 20)

    @pytest.mark.parametrize(
        "content",
        [
            *("", '{"step":', "[]", "null", "20", "[" * 100_000, "\0\1", "{}"),
            *(f'{{"step":{step},"identity":{{}}}}' for step in ("null", '"abc"', "1e999", "20.0", "true", "[20]")),
            *(f'{{"step":20,"identity":{identity}}}' for identity in ("[]", "null", '"x"')),
            '{"step":20,"identity":{},"total_steps":"20"}',
            '{"step":20}',
        ],
    )
    def test_one_of_other_types_counts_as_absent(self, tmp_path, store, content):
        assert self.finished(tmp_path, store, content) is None

    @pytest.mark.parametrize("content", ['{"step":20,"identity":{}}', '{"step":3,"total_steps":20,"identity":{"a":1}}'])
    def test_a_sound_one_is_believed(self, tmp_path, store, content):
        done = self.finished(tmp_path, store, content)
        assert done is not None
        assert done["step"] in (3, 20)

    def test_a_step_of_which_there_is_no_checkpoint_is_not_believed(self, tmp_path, store, capfd):
        assert self.finished(tmp_path, store, '{"step":99,"identity":{}}') is None
        assert "no checkpoint of it" in capfd.readouterr().out
