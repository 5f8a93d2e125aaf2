"""One suite in a process of its own: `python -m bench.child SUITE quick|full DIRECTORY RESULT`.

Suites do not share memory, page-locked buffers or saver processes, and one that fails takes no other with it.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.plan import FULL, QUICK


def main() -> None:
    suite, extent, directory, result = sys.argv[1:]
    run = importlib.import_module(f"bench.suites.{suite}").run
    rows = run(QUICK if extent == "quick" else FULL, Path(directory))
    Path(result).write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


if __name__ == "__main__":
    main()
