"""`python -m app` in forked processes: `python -m tests.crash.trials` serves them line by line.

torch is imported once, so that an attempt costs a fork. A request is JSON: {"root", "app": [arguments]}. The
answer is the attempt's pid and, after a line "wait", its exit status. Until then an ended attempt stays a zombie, so
that its pid stays its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.crash.attempts import warm_up
from tests.forked import become_the_worker


def main() -> None:
    warm_up()
    print("ready", flush=True)
    while line := sys.stdin.readline():
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            root = Path(request["root"])
            become_the_worker(request["app"], {"CHECKPOINT_DIR": str(root)}, root / "log.txt")
        print(pid, flush=True)
        sys.stdin.readline()
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
