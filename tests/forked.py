"""`python -m app` in a fork of a process that has imported what is slow to import: milliseconds instead of seconds."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn


def become_the_worker(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, workloads: Path | None = None
) -> NoReturn:
    """In the forked child: the program with this environment and no other. `workloads` is a second folder of them."""
    try:
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ.clear()
        os.environ.update(environment)
        if workloads:
            from app.workloads import __path__ as folders

            folders.append(str(workloads))
        from app import shutdown

        shutdown.process = shutdown.Shutdown()  # the parent may have had sessions, and their end
        sys.argv = ["app", *arguments]
        runpy.run_module("app", run_name="__main__")
    finally:
        os._exit(99)  # `main` should have left
