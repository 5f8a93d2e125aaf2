"""Runs a literal command for the rehearsal: shows it, keeps its output in a log, ends the rehearsal when it fails."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

console = Console(highlight=False)


class RehearsalError(Exception):
    """The rehearsal cannot go on; the message says which command failed and how."""


def run(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: Path, shown: str | None = None
) -> str:
    """Run `command`, return its standard output; both outputs go to `log`.

    Args:
        shown: what a person would type, when that is shorter than `command`.

    Raises:
        RehearsalError: it ended with another code than 0.
    """
    console.print(f"[bold]$ {shown or ' '.join(command)}[/bold]", soft_wrap=True)
    started = time.monotonic()
    done = subprocess.run(command, cwd=cwd, env=dict(environment), capture_output=True, text=True, check=False)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        file.write(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}\n")
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise RehearsalError(f"`{' '.join(command)}` ended with {done.returncode}:\n{tail}\n(all of it: {log})")
    console.print(f"  [dim]{time.monotonic() - started:.1f} s[/dim]")
    return done.stdout
