"""A line that cannot be opened is refused with the way out; done.json is believed only where a checkpoint agrees."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from app import startup
from app.checkpoint.epochs import CLAIMS
from app.checkpoint.storage.patience import PAUSES_S, StoreUnavailable
from app.clock import Clock
from app.contract import Refusal, Task
from tests.engine.lines import Failing, attempt, commit, failing_on

ENOSPC, EIO, EACCES = errno.ENOSPC, errno.EIO, errno.EACCES


class TestOpening:
    def test_a_missing_mount_is_refused_and_not_made(self, tmp_path):
        with pytest.raises(Refusal, match="does not exist"):
            startup.open_store(Task(tmp_path / "absent"))
        assert not (tmp_path / "absent").exists()

    def test_on_a_disk_the_name_of_the_line_is_durable_before_anything_lies_in_it(self, tmp_path, monkeypatch):
        synced: list[str] = []
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
        startup.open_store(Task(tmp_path))
        assert synced == [str(tmp_path)]

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
