"""`python -m app` from its start to its exit code, in a fork of this process and with workloads made for it."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forked import become_the_worker

HEAD = """
import logging, os, signal, sys, threading, warnings
from app import session, shutdown
STEPS, SAVE_EVERY, STEP_DELAY_S = 6, 1, 0.0
def add_flags(parser):
    parser.add_argument("--width", type=int, default=2)
def identity(flags):
    return {"workload": "mine", "width": flags.own.width}
def run(flags, start):
    with session(total_steps=flags.steps, every_steps=flags.save_every, identity=identity(flags), start=start) as run:
        for step in run.steps():
            body(run, step)
"""


@dataclass(frozen=True)
class Ended:
    code: int
    log: str
    line: Path

    @property
    def messages(self) -> list[dict]:
        return [json.loads(line) for line in self.log.splitlines()]

    @property
    def ledger(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted((self.line / "ledger").iterdir())]


@pytest.fixture
def app(tmp_path: Path):
    """Runs `python -m app` with a workload `mine`, of which the text given is the body of a step."""
    folder, root = tmp_path / "workloads", tmp_path / "checkpoints"
    folder.mkdir()
    root.mkdir()

    def run(body: str, *arguments: str, tail: str = "", **environment: str) -> Ended:
        step = f"def body(run, step):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
        (folder / "mine.py").write_text(HEAD + step + textwrap.dedent(tail))
        log = tmp_path / f"log-{len(list(tmp_path.iterdir()))}.txt"
        pid = os.fork()
        if pid == 0:
            become_the_worker(["mine", *arguments], {"CHECKPOINT_DIR": str(root), **environment}, log, folder)
        code = os.waitstatus_to_exitcode(wait_for(pid))
        return Ended(code, log.read_text(), root / f"{environment.get('CLOUD_RUN_JOB', 'job')}-task-0")

    return run


def wait_for(pid: int) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the worker did not end")


def test_a_workload_put_into_the_folder_trains_to_its_end_and_its_checkpoints_are_its_own(app):
    ended = app("run.log(loss=step)", "--width", "7")
    assert ended.code == 0, ended.log
    assert json.loads((ended.line / "done.json").read_text())["identity"]["width"] == 7
    other = app("run.log(loss=step)", "--width", "8", "--steps", "9")
    assert other.code == 78
    assert "width: 7 in the checkpoint, 8 here" in other.log


def test_asking_for_help_exits_0_without_a_traceback_or_a_checkpoint_dir(app):
    ended = app("pass", "--help", CHECKPOINT_DIR="")
    assert ended.code == 0
    assert "usage: python -m app mine" in ended.log
    assert "--width" in ended.log
    assert "Traceback" not in ended.log


@pytest.mark.parametrize("how", ["sys.exit(0)", "sys.exit()", "leaving the loop"])
def test_leaving_before_the_work_is_complete_is_no_success(app, how):
    if how == "leaving the loop":
        tail = """
            def run(flags, start):
                with session(total_steps=6, start=start) as run:
                    for step in run.steps():
                        break
        """
        ended = app("pass", tail=tail, MAX_RETRIES="3")
    else:
        ended = app(f"if step == 3: {how}", MAX_RETRIES="3")
    assert ended.code == 70, ended.log
    assert "before its work was complete (attempt 0, 3 retries left)" in ended.log
    assert not (ended.line / "done.json").exists()


def test_sys_exit_with_another_code_is_a_failure_and_the_ledger_says_so(app):
    ended = app("if step == 3: sys.exit(3)", CLOUD_RUN_TASK_ATTEMPT="3", MAX_RETRIES="3")
    assert ended.code == 70
    assert "The program failed (attempt 3, no retry left)" in ended.log
    assert (ended.ledger[0]["reason"], ended.ledger[0]["exit_code"]) == ("failed", 70)


def test_sys_exit_after_the_work_is_complete_is_a_success(app):
    ended = app(
        "pass",
        tail="""
            train = run
            def run(flags, start):
                train(flags, start)
                sys.exit(0)
        """,
    )
    assert ended.code == 0, ended.log


@pytest.mark.parametrize("leaving", ["sys.exit(0)", "return"])
def test_after_sigterm_leaving_early_is_no_success_either(app, leaving):
    ended = app(
        "pass",
        tail=f"""
            def run(flags, start):
                with session(total_steps=6, identity=identity(flags), start=start) as run:
                    for step in run.steps():
                        if step == 2:
                            os.kill(os.getpid(), signal.SIGTERM)
                            shutdown.process.noticed.wait(30)
                            {leaving}
        """,
    )
    assert ended.code == 143, ended.log
    assert ended.ledger[0]["last_durable_step"] == 2


def test_a_stop_while_a_checkpoint_is_read_ahead_ends_the_process_at_once(app):
    body = """
        import numpy.random  # whose generator's state is an array
        if step == 3:
            raise RuntimeError
    """
    shards = list(app(body).line.glob("shards/*/*"))
    assert shards
    for shard in shards:
        shard.unlink()
        os.mkfifo(shard)  # whoever opens it waits for ever
    ended = app(
        "pass",
        tail="""
            def run(flags, start):
                assert start.ahead is not None
                os.kill(os.getpid(), signal.SIGTERM)
                threading.Event().wait()
        """,
    )
    assert ended.code == 143, ended.log
    assert "Stopped before the first step" in ended.log


def test_finishing_early_on_purpose_is_complete_and_starting_again_does_nothing(app):
    ended = app("if step == 2: run.finish_early()")
    assert ended.code == 0, ended.log
    done = json.loads((ended.line / "done.json").read_text())
    assert (done["step"], done["total_steps"]) == (3, 6)
    again = app("pass")
    assert again.code == 0
    assert "Finished already, at step 3" in again.log
    more = app("pass", "--steps", "8")
    assert more.code == 0
    assert "Resuming from checkpointed step 3." in more.log


def test_on_cloud_run_what_libraries_warn_of_is_one_json_line_each(app):
    ended = app(
        """
        if step == 0:
            warnings.warn("two\\nlines", UserWarning)
            logging.getLogger("lib").warning("from %s", "a library")
            logging.getLogger("lib").debug("not this")
            try:
                1 / 0
            except ZeroDivisionError:
                logging.getLogger("lib").exception("it broke")
        """,
        CLOUD_RUN_JOB="trainer",
        CLOUD_RUN_EXECUTION="trainer-x1",
    )
    assert ended.code == 0, ended.log
    told = [(line["severity"], line["message"]) for line in ended.messages]
    (warned,) = [message for severity, message in told if severity == "WARNING" and message.startswith("py.warnings: ")]
    assert "UserWarning: two\nlines" in warned
    assert ("WARNING", "lib: from a library") in told
    (broke,) = [message for severity, message in told if severity == "ERROR"]
    assert broke.startswith("lib: it broke\nTraceback")
    assert broke.endswith("ZeroDivisionError: division by zero")
    assert not [message for _, message in told if "not this" in message]


def test_an_execution_says_at_its_start_which_attempt_it_is(app):
    ended = app("pass", CLOUD_RUN_EXECUTION="trainer-x1", CLOUD_RUN_TASK_ATTEMPT="1", MAX_RETRIES="3")
    assert "trainer-x1, task 0, attempt 1, 2 retries left: begins as e0001-" in ended.log
