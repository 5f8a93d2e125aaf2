"""Attempts on record, and the breaker that ends a crash loop."""

from __future__ import annotations

import json
import threading

import pytest

from app import ledger
from app.checkpoint.storage.directory import DirectoryStore
from app.contract import Task
from app.ledger import Ledger, NoProgress


@pytest.fixture
def store(tmp_path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


def task(tmp_path, execution: str = "exec-1") -> Task:
    return Task(tmp_path, job="trainer", execution=execution)


def attempt(
    store, tmp_path, reason: str | None, *, start: int | None = None, durable: int | None = None, execution="exec-1"
):
    opened = Ledger.open(store, task(tmp_path, execution))
    if start is not None:
        opened.resumed("name", start)
    if durable is not None:
        opened.durable(durable, durable)
    if reason is not None:
        opened.end(70, reason, durable or start or 0)


def check(store, tmp_path, execution: str = "exec-1") -> None:
    ledger.refuse_without_progress(store, ledger.read_all(store), task(tmp_path, execution))


def test_each_attempt_takes_the_next_epoch(store, tmp_path):
    epochs = [Ledger.open(store, task(tmp_path)).attempt.epoch for _ in range(3)]
    assert epochs == [1, 2, 3]


def test_a_document_has_the_agreed_fields(store, tmp_path):
    opened = Ledger.open(store, Task(tmp_path, job="trainer", execution="exec-1", index=2, attempt=1))
    opened.resumed("000000000120-e0003-5f3c1e", 120)
    opened.durable(140, 145)
    opened.end(143, "stopped", 147)
    content = json.loads((tmp_path / opened.attempt.document).read_text())
    assert content.pop("started_at")
    assert content.pop("ended_at")
    assert content == {
        "format": 1,
        "epoch": 1,
        "nonce": opened.attempt.nonce,
        "job": "trainer",
        "execution": "exec-1",
        "task_index": 2,
        "platform_attempt": 1,
        "resumed_from_step": 120,
        "resumed_from": "000000000120-e0003-5f3c1e",
        "last_step": 147,
        "last_durable_step": 140,
        "exit_code": 143,
        "reason": "stopped",
    }


def test_the_first_end_counts(store, tmp_path):
    opened = Ledger.open(store, task(tmp_path))
    opened.end(143, "stopped", 5)
    opened.end(0, "finished", 9)
    assert ledger.read_all(store)[0].reason == "stopped"


def test_a_torn_document_is_left_out_but_its_epoch_stays_taken(store, tmp_path):
    attempt(store, tmp_path, "failed")
    (document,) = (tmp_path / "ledger").iterdir()
    document.write_text(document.read_text()[:20])
    assert ledger.read_all(store) == []
    assert Ledger.open(store, task(tmp_path)).attempt.epoch == 2


@pytest.mark.parametrize(
    "wrong",
    [
        *({"last_durable_step": value} for value in ("abc", 1.5, float("inf"), True, [1])),
        *({"resumed_from_step": "a"}, {"reason": [1]}, {"epoch": None}, {"execution": 3}, {"exit_code": {}}),
        *(None, [], "text", "deep"),
    ],
    ids=str,
)
def test_a_document_with_fields_of_other_types_is_left_out_like_a_torn_one(store, tmp_path, wrong):
    attempt(store, tmp_path, "failed", durable=4)
    (document,) = (tmp_path / "ledger").iterdir()
    content = json.dumps({**json.loads(document.read_text()), **wrong} if isinstance(wrong, dict) else wrong)
    document.write_text("[" * 100_000 if wrong == "deep" else content)
    assert ledger.read_all(store) == []
    check(store, tmp_path)
    assert Ledger.open(store, task(tmp_path)).attempt.epoch == 2


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"execution": 1}', '{"execution": null}', "[" * 100_000])
def test_a_verdict_that_cannot_be_read_is_none(store, tmp_path, content):
    (tmp_path / "verdict.json").write_text(content)
    check(store, tmp_path)


def test_a_verdict_without_a_message_gets_one(store, tmp_path):
    (tmp_path / "verdict.json").write_text('{"execution": "exec-1"}')
    with pytest.raises(NoProgress, match="exec-1 made no progress"):
        check(store, tmp_path)


def test_a_reason_that_only_another_version_knows_is_read_as_none(store, tmp_path):
    attempt(store, tmp_path, "evicted", durable=4)
    (record,) = ledger.read_all(store)
    assert (record.reason, record.last_durable_step) == (None, 4)


def test_an_end_that_is_told_while_a_save_is_being_told_stays(store, tmp_path, monkeypatch):
    opened, replace = Ledger.open(store, task(tmp_path)), store.replace
    ending = threading.Thread(target=opened.end, args=(70, "hung", 7))

    def slow(name: str, content: bytes) -> None:
        if not json.loads(content)["ended_at"]:
            ending.start()
            ending.join(0.5)  # it must wait; if it does not, its document is overwritten below
        replace(name, content)

    monkeypatch.setattr(store, "replace", slow)
    opened.durable(5, 6)
    ending.join()
    (record,) = ledger.read_all(store)
    assert (record.reason, record.last_durable_step, record.last_step) == ("hung", 5, 7)


def test_a_ledger_that_cannot_be_written_does_not_end_the_attempt(store, tmp_path, monkeypatch):
    opened = Ledger.open(store, task(tmp_path))

    def broken(_name: str, _content: bytes) -> None:
        raise OSError("no")

    monkeypatch.setattr(store, "replace", broken)
    opened.durable(5, 5)
    assert opened.record.last_durable_step == 5


class TestBreaker:
    def test_three_failures_in_a_row_without_progress_are_a_verdict(self, store, tmp_path):
        for _ in range(2):
            attempt(store, tmp_path, "failed", start=10)
            check(store, tmp_path)
        attempt(store, tmp_path, "hung", start=10)
        with pytest.raises(NoProgress, match="3 attempts in a row") as refusal:
            check(store, tmp_path)
        assert refusal.value.exit_code == 78
        assert json.loads((tmp_path / "verdict.json").read_text())["execution"] == "exec-1"

    def test_a_verdict_holds_for_the_executions_later_attempts(self, store, tmp_path):
        for _ in range(3):
            attempt(store, tmp_path, "failed")
        for _ in range(2):
            with pytest.raises(NoProgress):
                check(store, tmp_path)

    def test_a_new_execution_is_a_new_try(self, store, tmp_path):
        for _ in range(3):
            attempt(store, tmp_path, "failed")
        with pytest.raises(NoProgress):
            check(store, tmp_path)
        check(store, tmp_path, "exec-2")

    def test_progress_in_between_clears_the_count(self, store, tmp_path):
        attempt(store, tmp_path, "failed", start=10)
        attempt(store, tmp_path, "failed", start=10)
        attempt(store, tmp_path, "failed", start=10, durable=20)
        check(store, tmp_path)

    def test_the_platforms_stops_are_not_failures(self, store, tmp_path):
        for reason in ("failed", "failed", "stopped"):
            attempt(store, tmp_path, reason)
        check(store, tmp_path)

    def test_killed_without_notice_neither_counts_nor_excuses(self, store, tmp_path):
        for reason in ("failed", None, "failed", None):
            attempt(store, tmp_path, reason)
        check(store, tmp_path)
        attempt(store, tmp_path, "failed")
        with pytest.raises(NoProgress):
            check(store, tmp_path)

    def test_outside_cloud_run_there_is_no_breaker(self, store, tmp_path):
        for _ in range(4):
            attempt(store, tmp_path, "failed", execution="")
        check(store, tmp_path, "")
