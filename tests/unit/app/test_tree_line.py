"""A program's line of directory trees: attempts claim epochs, the ledger knows what is durable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.checkpoint.resume import NothingLoads
from app.contract import Refusal
from app.trees import TreeLine


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path))
    return tmp_path


def test_the_next_attempt_goes_on_from_what_the_first_committed(root: Path) -> None:
    first = TreeLine.open()
    assert first.restore(root / "out") is None
    (root / "out").mkdir()
    (root / "out/weights").write_bytes(b"7")
    first.commit(7, root / "out")
    second = TreeLine.open()
    assert second.restore(root / "again") == second.step == 7
    assert (root / "again/weights").read_bytes() == b"7"
    ledger = [json.loads(path.read_text()) for path in sorted((root / "job-task-0/ledger").iterdir())]
    assert [record["last_durable_step"] for record in ledger] == [7, 7]
    assert [record["resumed_from_step"] for record in ledger] == [None, 7]


def test_a_line_whose_ledger_knows_a_commit_does_not_start_over(root: Path) -> None:
    (root / "out").mkdir()
    TreeLine.open().commit(7, root / "out")
    for folder in ("checkpoints", "shards"):
        for path in (root / "job-task-0" / folder).glob("*.json"):
            path.unlink()
    (root / "job-task-0/latest.json").unlink()
    with pytest.raises(NothingLoads, match="ledger"):
        TreeLine.open().restore(root / "again")


def test_a_save_that_fails_is_logged_and_the_run_goes_on(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "out").mkdir()
    (root / "out/weights").write_bytes(b"7")
    line = TreeLine.open()
    line.line.sleep = lambda _s: None
    real, failures = line.line.store.create, [OSError(5, "Input/output error")] * 5

    def create(name, chunks):
        if failures:
            raise failures.pop()
        return real(name, chunks)

    line.line.store.create = create  # type: ignore[method-assign]
    assert line.commit(7, root / "out") is None
    assert "Step 7 was not committed" in capfd.readouterr().out
    assert line.commit(8, root / "out") is not None  # the first try meets the last failure
    assert [path.name[:12] for path in (root / "job-task-0/checkpoints").iterdir()] == ["000000000008"]
    assert line.commit(9, root / "nowhere") is None
    assert "nowhere" in capfd.readouterr().out


def test_without_a_place_for_checkpoints_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHECKPOINT_DIR")
    with pytest.raises(Refusal, match="CHECKPOINT_DIR"):
        TreeLine.open()
