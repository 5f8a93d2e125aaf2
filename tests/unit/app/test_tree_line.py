"""A program's line of directory trees: attempts claim epochs, the ledger knows what is durable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.checkpoint.resume import NothingLoads
from app.contract import Refusal
from app.trees import TreeLine


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # as it was, once the test has ended
    monkeypatch.setattr("atexit.register", lambda *_: None)
    return tmp_path


def ends(root: Path) -> list[tuple[int | None, str | None, bool]]:
    """Exit code and reason of each attempt, and whether it has ended."""
    ledger = [json.loads(path.read_text()) for path in sorted((root / "job-task-0/ledger").iterdir())]
    return [(record["exit_code"], record["reason"], record["ended_at"] is not None) for record in ledger]


def ended(root: Path, text: str) -> int:
    """How a script ends that does this."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys\nfrom app.contract import TryAgain\nfrom app.trees import TreeLine\n" + text,
        ],
        env={**os.environ, "CHECKPOINT_DIR": str(root)},
        check=False,
        timeout=60,
    ).returncode


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


def test_a_refusal_ends_a_script_with_its_exit_code(root: Path) -> None:
    assert ended(root / "absent", "TreeLine.open()") == 78
    assert ended(root, "TreeLine.open(); raise ValueError") == 70


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        ("pass", 0, "finished"),
        ("sys.exit()", 0, "finished"),
        ("sys.exit(3)", 70, "failed"),
        ("raise ValueError", 70, "failed"),
        ("raise TryAgain('later')", 75, "handed-off"),
    ],
)
def test_the_end_of_the_block_is_in_the_ledger(root: Path, body: str, code: int, reason: str) -> None:
    left = ended(root, f"with TreeLine.open() as line:\n    {body}")
    assert left == (3 if "3" in body else code)
    assert ends(root) == [(code, reason, True)]


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [("pass", None, None), ("sys.exit(3)", None, None), ("raise TryAgain('later')", 75, "handed-off")],
)
def test_without_a_block_the_end_of_the_process_is_in_the_ledger(
    root: Path, body: str, code: int | None, reason: str | None
) -> None:
    ended(root, f"line = TreeLine.open()\n{body}")
    assert ends(root) == [(code, reason, True)]


def test_a_forked_child_that_ends_does_not_end_the_attempt(root: Path) -> None:
    text = """
with TreeLine.open() as line:
    if os.fork() == 0:
        sys.exit(3)
    os.wait()
    os._exit(9)  # as good as killed
"""
    assert ended(root, text) == 9
    assert ends(root) == [(None, None, False)]
