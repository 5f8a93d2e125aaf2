"""A part of the sweep of sweep.py: SIGKILLs in every window, and spoiled engines that it must find."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import sabotage

ROOT = Path(__file__).parents[2]
TRIALS = 200


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute and a half; on a busy machine many times that
def test_killed_in_every_window_it_resumes_from_the_newest_and_ends_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.sweep", "--trials", str(TRIALS), "--prove"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{TRIALS} passed, 0 failed"
    for window in ("start", "write", "publish", "prune", "record"):
        count = re.search(rf"^  {window} +([0-9]+)", done.stdout, re.MULTILINE)
        assert count, done.stdout
        assert int(count[1]) >= 8, f"{window} was hardly attacked:\n{done.stdout}"
    assert all(f"spoiled: {name}: trial" in done.stdout for name in sabotage.ALL)
