"""Threads that are kept: every task has ended when the call has, and a process that is forked has its own."""

from __future__ import annotations

import os
import threading
from functools import partial

import pytest

from app.checkpoint.workers import at_once


def test_results_come_in_the_order_of_the_tasks():
    assert at_once("test", 3, [partial(int, number) for number in range(20)]) == list(range(20))


def test_no_more_run_at_a_time_than_are_asked_for_and_the_caller_goes_on_meanwhile():
    together = threading.Barrier(3, timeout=20)  # two tasks and the caller
    seen = set[str]()

    def task() -> None:
        seen.add(threading.current_thread().name)
        together.wait()

    at_once("pair", 2, [task, task], meanwhile=together.wait)
    at_once("pair", 2, [lambda: seen.add(threading.current_thread().name)] * 10)
    assert len(seen) == 2


@pytest.mark.parametrize("fails", ["a task", "the caller"])
def test_an_error_is_raised_when_every_task_has_ended(fails):
    begun, ended = threading.Event(), list[int]()

    def failing() -> None:
        if fails == "a task":
            raise OSError("disk")

    def slow(number: int) -> None:
        begun.wait(20)
        ended.append(number)

    def meanwhile() -> None:
        begun.set()
        if fails == "the caller":
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        at_once("failing", 2, [failing, *[partial(slow, number) for number in range(5)]], meanwhile)
    assert sorted(ended) == list(range(5))


def test_a_forked_process_has_threads_of_its_own():
    at_once("forked", 2, [int, int])
    child = os.fork()
    if not child:
        os._exit(sum(at_once("forked", 2, [lambda: 3, lambda: 4])))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("starts", [0, 1])
def test_where_no_thread_can_be_started_the_caller_does_it_all_and_nothing_is_left_for_later(monkeypatch, starts):
    """A limit of processes. Later the memory that a task reads is another save's; never, its file stays open."""
    holding, left, done = threading.Event(), [starts], list[int]()
    timer = threading.Timer(0.2, holding.set)
    timer.start()
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    def task(number: int) -> int:
        holding.wait(20)
        done.append(number)
        return number

    kind = f"limited to {starts}"
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", limited)
        assert at_once(kind, 3, [partial(task, number) for number in range(4)]) == [0, 1, 2, 3]
    assert sorted(done) == [0, 1, 2, 3]
    timer.join()
    assert at_once(kind, 3, [partial(int, number) for number in range(4)]) == [0, 1, 2, 3]
    assert sorted(done) == [0, 1, 2, 3]
