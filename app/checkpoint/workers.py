"""Threads that storage work is done by, kept from one save to the next.

To start a thread takes 0.13 ms, on a busy machine milliseconds, and a small save had started ten of them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def at_once(
    kind: str, most: int, tasks: Sequence[Callable[[], T]], meanwhile: Callable[[], object] = lambda: None
) -> list[T]:
    """What each task returns, `most` of them at a time; `meanwhile` is done by the caller's thread.

    None of them runs any more when this returns, or raises what the first of them that failed raised. Those of one
    `kind` share their threads, so none may wait for another of its kind.
    """
    if min(most, len(tasks)) < 2:
        return [task() for task in tasks]
    pool = _threads(kind, most)
    try:
        running = [pool.submit(task) for task in tasks]
    except BaseException:  # no thread can be started: the pool keeps what it was given, and would do it at a later call
        _threads.cache_clear()
        pool.shutdown(cancel_futures=True)
        raise
    try:
        meanwhile()
    finally:
        wait(running)
    return [each.result() for each in running]


@cache
def _threads(kind: str, most: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(most, thread_name_prefix=kind)


os.register_at_fork(after_in_child=_threads.cache_clear)  # which has none of the threads
