"""Threads that storage work is done by, kept from one save to the next.

To start a thread takes 0.13 ms, on a busy machine milliseconds, and a small save had started ten of them.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def at_once(
    kind: str, most: int, tasks: Sequence[Callable[[], T]], meanwhile: Callable[[], object] = lambda: None
) -> list[T]:
    """What each task returns, `most` of them at a time; `meanwhile` is done by the caller's thread.

    All of them have run when this returns, or raises what the first of them that failed raised; where no thread can be
    started, in the caller's. Those of one `kind` share their threads, so none may wait for another of its kind.
    """
    if min(most, len(tasks)) < 2:
        return [task() for task in tasks]
    pool = _threads(kind, most)
    running = list(map(_Task, tasks))
    try:
        for each in running:
            pool.submit(each)
    except BaseException as error:  # the pool keeps what it was given, and would begin it at a later call
        _threads.cache_clear()
        pool.shutdown(cancel_futures=True)
        if not isinstance(error, RuntimeError):
            raise
        for each in running:  # no thread can be started: what none has done is done here
            each()
    try:
        meanwhile()
    finally:
        wait([each.done for each in running])
    return [each.done.result() for each in running]


class _Task(Generic[T]):
    """Done by the first that calls it."""

    def __init__(self, action: Callable[[], T]) -> None:
        self.done = Future[T]()
        self._action = action
        self._begun = Lock()

    def __call__(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self.done.set_result(self._action())
        except BaseException as error:  # raised to whoever waits for it
            self.done.set_exception(error)


@cache
def _threads(kind: str, most: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(most, thread_name_prefix=kind)


os.register_at_fork(after_in_child=_threads.cache_clear)  # which has none of the threads
