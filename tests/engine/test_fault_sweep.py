"""Every way storage fails, at every call of a session's life: nothing is lost, the run goes on, the error is named.

The life: a line with two checkpoints is resumed, two more are saved, older ones pruned, the work finished.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from app import session, startup
from app.checkpoint import epochs
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.medium import Medium
from app.clock import Clock
from app.contract import Task, TaskError
from app.shutdown import Shutdown
from tests.crash.line_on_disk import committed
from tests.engine.faulty import MADE, SET_BACK_S, Call, Fault, Faulty, at, from_then_on

STEPS, EVERY = 8, 2
AFTER = 4
"""The step which the line has come to when the life begins."""


class Gone(BaseException):
    """The program of an attempt that has left."""


class Life:
    """One attempt on the line in `root`, through a store that may fail."""

    def __init__(self, root: Path, medium: Medium = Medium.DISK) -> None:
        self.root = root
        (root / "job-task-0").mkdir(parents=True, exist_ok=True)
        self.store = Faulty(DirectoryStore(root / "job-task-0", medium))
        self.now_s = 0.0
        self.calls_before_the_session = 0
        self.left_with: list[int] = []
        self.calls_of_the_start = 0
        """Those until the first step."""
        self.came_to = 0
        """The last step that was begun."""

    def _leave(self, code: int) -> NoReturn:
        self.left_with.append(code)
        while True:  # a process that has left does nothing more
            threading.Event().wait()

    def clock(self) -> Clock:
        """Every look takes a tenth of a second, every pause its seconds: a failed save is due again a step later."""

        def now_s() -> float:
            self.now_s += 0.1
            return self.now_s

        def sleep(seconds: float) -> None:
            self.now_s += seconds

        return Clock(now_s, sleep)

    def run(self, until: int = STEPS) -> None:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        start = startup.begin(Task(self.root), self.store, self.clock())
        self.calls_before_the_session = len(self.store.calls)
        with session(
            model=model,
            optimizer=optimizer,
            total_steps=STEPS,
            every_steps=EVERY,
            keep=2,
            start=start,
            shutdown=Shutdown(exit_process=self._leave, end_children=lambda: None),
        ) as run:
            for step in run.steps():
                if step == until:
                    break
                self.came_to = step
                self.calls_of_the_start = self.calls_of_the_start or len(self.store.calls)
                if self.left_with:
                    raise Gone
                self.now_s += 2.0
                optimizer.zero_grad()
                (model(torch.randn(5, 3)) ** 2).sum().backward()
                optimizer.step()

    @property
    def weights(self) -> str | None:
        """Of the finished work; None while it is not, or its mark is torn."""
        try:
            return json.loads((self.root / "job-task-0/done.json").read_text())["weights_sha256"]
        except (FileNotFoundError, ValueError):
            return None


@pytest.fixture(scope="module", params=list(Medium))
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A line that has come to step 4."""
    life = Life(tmp_path_factory.mktemp("begun"), request.param)
    life.run(until=AFTER + 1)
    assert [found.step for found in committed(life.root / "job-task-0")] == [2, 4]
    return life


@pytest.fixture(scope="module")
def whole(begun: Life, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """The life to which nothing happens."""
    life = again(begun, tmp_path_factory.mktemp("whole"))
    life.run()
    return life


def again(begun: Life, root: Path) -> Life:
    shutil.copytree(begun.root / "job-task-0", root / "job-task-0", dirs_exist_ok=True)
    return Life(root, begun.store.inner.medium)


def live(life: Life, capfd: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """How it ended: "finished", an error's name, or "left CODE" by its saver; and everything it said."""
    ended: list[BaseException | None] = []

    def attempt() -> None:
        try:
            life.run()
        except BaseException as error:
            ended.append(error)
        else:
            ended.append(None)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not ended and not (life.left_with and waits_for_ever(thread)):
        assert time.monotonic() < deadline, "the attempt neither ends nor leaves"
        thread.join(0.002)
    said = capfd.readouterr().out
    if life.left_with:
        return f"left {life.left_with[0]}", said
    (error,) = ended
    if error is not None and not isinstance(error, (TaskError, OSError)):
        raise error
    return type(error).__name__ if error else "finished", said + str(error or "")


def waits_for_ever(thread: threading.Thread) -> bool:
    """Whether this thread of an attempt whose saver has left waits for it: as a process it would be gone."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name in ("wait", "_wait_for_tstate_lock")  # of a condition, to join


def nothing_is_lost(life: Life, whole: Life, where: str) -> None:
    """What was committed is whole, at least two of it are there, and the next attempt ends with the right weights."""
    left = committed(life.root / "job-task-0")
    assert len(left) >= 2, where
    assert left[-1].step >= AFTER, where
    if life.weights is None:
        Life(life.root, life.store.inner.medium).run()
        ledger = sorted((life.root / "job-task-0/ledger").iterdir())[-1]
        assert json.loads(ledger.read_text())["resumed_from_step"] == left[-1].step, where
    assert life.weights == whole.weights, where


SILENT = {Fault.SHORT, Fault.FEWER, Fault.STALE, Fault.SLOW, Fault.SET_BACK, Fault.CUT, Fault.VANISHED}
"""No error comes up to the engine, or (SHORT) not always: the half-written is there."""


@pytest.mark.parametrize("fault", list(Fault))
def test_one_call_fails_and_the_run_goes_on(begun, whole, tmp_path, capfd, fault):
    """Only what can never be written from the very beginning is refused before the work begins."""
    ends, unnamed = Counter[str](), list[str]()
    for call in whole.store.calls:
        if not fault.concerns(call.method):
            continue
        where = f"{fault.value} at {call}"
        life = again(begun, tmp_path / str(call.number))
        life.store.plan = at(call.number, fault)
        end, said = live(life, capfd)
        ends[end] += 1
        assert life.store.happened, where
        if end != "finished":
            assert end == "Refusal", f"{where}: {end}\n{said}"
            assert fault in (Fault.FULL, Fault.FORBIDDEN), where
            assert call.number < whole.calls_before_the_session, where
        if MADE not in said and fault not in SILENT:
            unnamed.append(where)
        nothing_is_lost(life, whole, where)
        shutil.rmtree(life.root)
    with capfd.disabled():
        print(f"\n{fault.value}: {sum(ends.values())} calls, {dict(ends)}")
    assert ends["finished"] >= 2
    assert not unnamed


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.BROKEN, Fault.FORBIDDEN])
def test_from_some_call_on_nothing_works_any_more_and_the_work_so_far_is_kept(begun, whole, tmp_path, capfd, fault):
    """The program is brought to its last step all the same: saves that fail do not end it."""
    ends = Counter[str]()
    for call in whole.store.calls:
        where = f"{fault.value} from {call} on"
        life = again(begun, tmp_path / str(call.number))
        life.store.plan = from_then_on(call.number, fault)
        end, said = live(life, capfd)
        ends[end] += 1
        assert end in ("finished", "Refusal", "StoreUnavailable", "SaveFailed"), f"{where}: {end}\n{said}"
        assert MADE in said or not life.store.happened, f"{where}\n{said}"
        if call.number >= whole.calls_of_the_start:
            assert life.came_to == STEPS - 1, where
            assert end != "Refusal", f"{where}\n{said}"
        nothing_is_lost(life, whole, where)
        shutil.rmtree(life.root)
    with capfd.disabled():
        print(f"\n{fault.value} for good: {sum(ends.values())} calls, {dict(ends)}")
    assert set(ends) >= {"Refusal", "SaveFailed"} or fault is Fault.BROKEN


def test_another_attempt_takes_over_at_any_call_and_this_one_announces_nothing_more(begun, whole, tmp_path, capfd):
    ends = Counter[str]()
    for call in whole.store.calls:
        where = f"another attempt at {call}"
        life = again(begun, tmp_path / str(call.number))
        committed_before = list[object]()

        def takes_over(now: Call, life: Life = life, number: int = call.number, seen: list = committed_before) -> None:
            if now.number == number:
                epochs.claim(life.store.inner, lambda _attempt: b"{}")
                seen.extend(committed(life.root / "job-task-0"))

        life.store.plan = takes_over
        end, _ = live(life, capfd)
        ends[end] += 1
        if call.number > whole.calls_before_the_session:
            after = committed(life.root / "job-task-0")
            # A mount has no act that fails for an attempt which looked just before: it may commit once more.
            allowed = len(committed_before) + (life.store.inner.medium is Medium.MOUNT)
            assert len(set(after) | set(committed_before)) <= allowed, where
        nothing_is_lost(life, whole, where)
        shutil.rmtree(life.root)
    with capfd.disabled():
        print(f"\nanother attempt: {sum(ends.values())} calls, {dict(ends)}")
    assert set(ends) <= {"finished", "left 78", "Superseded"}
    assert ends["left 78"]


def test_the_clocks_are_set_back_at_any_call(begun, whole, tmp_path, capfd):
    """The store's and the process's."""
    for call in whole.store.calls:
        life = again(begun, tmp_path / str(call.number))

        def set_back(now: Call, life: Life = life, number: int = call.number) -> Fault | None:
            if now.number == number:
                life.now_s -= SET_BACK_S
            return Fault.SET_BACK if now.number >= number else None

        life.store.plan = set_back
        assert live(life, capfd)[0] == "finished", str(call)
        nothing_is_lost(life, whole, str(call))
        assert len(committed(life.root / "job-task-0")) == 2, str(call)
        shutil.rmtree(life.root)
