"""Commands that a test runs to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def output_of(*command: str, cwd: Path, environment: Mapping[str, str], expect: int = 0) -> str:
    """Both outputs, once it has ended with `expect`."""
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=240)
    output = done.stdout + done.stderr
    assert done.returncode == expect, f"exit {done.returncode}\n{output}"
    return output


def pulumi(*arguments: str, cwd: Path, environment: Mapping[str, str], expect: int = 0) -> str:
    command = ("pulumi", *arguments, "--non-interactive", "--color", "never")
    return output_of(*command, cwd=cwd, environment=environment, expect=expect)
