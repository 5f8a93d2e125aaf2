"""A session in a script of one's own: how its process ends, and what its arguments may be. No torch in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from app import session
from app.loop.identity import as_json

HEAD = """
import os, signal, sys
from app import session, shutdown
from app.contract import Refusal, TryAgain
"""


def run_script(root: Path, text: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLOUD_RUN")}
    return subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(text)],
        env={**environment, "CHECKPOINT_DIR": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def reasons(root: Path) -> list[str | None]:
    return [json.loads(path.read_text())["reason"] for path in sorted((root / "job-task-0/ledger").iterdir())]


@pytest.mark.parametrize(
    ("raised", "code"), [("Refusal('told')", 78), ("TryAgain('told')", 75), ("ValueError('told')", 70)]
)
def test_what_a_script_does_not_catch_ends_it_with_the_code_of_the_table(tmp_path, raised, code):
    ended = run_script(
        tmp_path,
        f"""
        with session(total_steps=3) as run:
            for step in run.steps():
                raise {raised}
        """,
    )
    assert ended.returncode == code, ended.stderr
    assert "told" in ended.stdout


def test_a_setting_that_a_script_has_wrong_ends_it_with_78(tmp_path):
    ended = run_script(tmp_path / "absent", "session(total_steps=3)")
    assert ended.returncode == 78, ended.stderr
    assert "does not exist" in ended.stdout


def test_a_session_that_is_refused_before_its_first_step_is_told_in_the_ledger(tmp_path):
    """Or the breaker would never count it."""
    script = """
        if os.path.exists(os.environ['CHECKPOINT_DIR'] + '/job-task-0'):
            import random
            random.getstate = None  # an error of the program while the session begins
        with session(total_steps=2) as run:
            for step in run.steps():
                raise TryAgain('told')
        """
    assert run_script(tmp_path, script).returncode == 75
    assert run_script(tmp_path, script).returncode == 70
    assert reasons(tmp_path) == ["handed-off", "failed"]


def test_a_stop_after_the_loop_was_left_while_a_save_is_written_is_no_success(tmp_path):
    ended = run_script(
        tmp_path,
        """
        import threading
        from app.checkpoint.storage.directory import DirectoryStore
        from app.loop.ending import Ending
        left, told, publish = threading.Event(), Ending.left_early, DirectoryStore.publish

        def slow(self, name, content, *last_look):
            if name.startswith("checkpoints"):
                assert left.wait(30)
                os.kill(os.getpid(), signal.SIGTERM)
                assert shutdown.process.noticed.wait(30)
            return publish(self, name, content, *last_look)

        DirectoryStore.publish = slow
        Ending.left_early = lambda self: (told(self), left.set())
        with session(total_steps=9, every_steps=1) as run:
            for step in run.steps():
                if step == 1:
                    break
        """,
    )
    assert ended.returncode == 143, ended.stdout + ended.stderr
    assert reasons(tmp_path) == ["stopped"]
    assert [path.name[:12] for path in (tmp_path / "job-task-0/checkpoints").iterdir()] == ["000000000001"]


def test_a_stop_in_a_second_session_is_not_taken_for_the_end_of_the_first(tmp_path):
    ended = run_script(
        tmp_path,
        """
        from app import startup
        from app.contract import Task
        task = Task.from_environment(os.environ)
        shutdown.process.install()
        start = startup.begin(task, startup.open_store(task))
        for total in (2, 10**9):  # no machine finishes the second before the stop is acted on
            with session(total_steps=total, start=start) as run:
                for step in run.steps():
                    if total > 2 and step == 4:
                        os.kill(os.getpid(), signal.SIGTERM)
                        shutdown.process.noticed.wait(30)
        """,
    )
    assert ended.returncode == 143, ended.stdout + ended.stderr
    assert reasons(tmp_path) == ["stopped"]


def test_a_stop_before_the_first_step_of_a_second_session_is_no_success_either(tmp_path):
    ended = run_script(
        tmp_path,
        """
        import time
        for total in (2, 9):
            with session(total_steps=total) as run:
                if total == 9:
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(60)
                for step in run.steps():
                    pass
        """,
    )
    assert ended.returncode == 143, ended.stdout + ended.stderr


def test_a_forked_child_that_ends_inside_a_session_leaves_the_line_alone(tmp_path):
    ended = run_script(
        tmp_path,
        """
        with session(total_steps=4) as run:
            for step in run.steps():
                if step == 2:
                    child = os.fork()
                    if child == 0:
                        sys.exit(3)
                    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        """,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert reasons(tmp_path) == ["finished"]
    assert "was left" not in ended.stdout


@pytest.mark.parametrize(
    "wrong",
    [
        {"total_steps": -1},
        {"every_steps": 0},
        {"keep": 1},
        {"log_every": 0},
        {"every_minutes": 0},
        {"every_minutes": float("nan")},
        {"every_minutes": float("inf")},
    ],
)
def test_arguments_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        session(**{"total_steps": 1, "start": object(), **wrong})


@pytest.mark.parametrize("value", [(1, 2), float("nan"), Path("x"), {1: 2}, {"in": [(1,)]}, object()])
def test_an_identity_that_json_would_change_is_refused_by_its_key(value):
    with pytest.raises(ValueError, match=r"identity\['shape'\]"):
        session(total_steps=1, identity={"ok": 1, "shape": value}, start=object())  # type: ignore[arg-type]


def test_an_identity_that_json_gives_back_is_taken():
    identity = {"text": "a", "list": [1, 2.5, None, True], "dict": {"a": {}}}
    assert as_json(identity) == identity
    with pytest.raises(ValueError, match=r"identity\[1\]"):
        as_json({1: 2})  # type: ignore[dict-item]


def test_an_identity_that_would_make_every_checkpoint_large_is_refused():
    with pytest.raises(ValueError, match="1,048,576"):
        as_json({"files": ["x" * 100] * 20_000})
