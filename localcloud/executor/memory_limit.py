"""A task's memory limit: the control group of one attempt, and what the task's log says of it."""

from collections.abc import Generator
from contextlib import contextmanager

from localcloud.executor import memory
from localcloud.executor.memory import MemoryGroup
from localcloud.logs.output import AttemptLog


@contextmanager
def limited(name: str, limit: str, log: AttemptLog) -> Generator[MemoryGroup | None]:
    """A group of that name and limit (a quantity such as `512Mi`) while an attempt runs; None where none may be made.

    The log tells that the limit is not enforced, or that it was exceeded.
    """
    group = memory.create(name, memory.quantity_bytes(limit))
    if group is None:
        log.platform(
            "The local cloud cannot limit memory on this machine (no memory control group may be made): "
            f"{limit} is not enforced.",
            "NOTICE",
        )
        yield None
        return
    try:
        yield group
    finally:
        if group.overran():
            limit_mib, used_mib = memory.quantity_bytes(limit) // 2**20, group.peak_bytes() // 2**20
            log.platform(
                f"Memory limit of {limit_mib} MiB exceeded with {used_mib} MiB used. Consider increasing the memory "
                "limit, see https://cloud.google.com/run/docs/configuring/memory-limits",
                "ERROR",
            )
        group.remove()
