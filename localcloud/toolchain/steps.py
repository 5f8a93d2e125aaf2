"""How set-up shows a long step: one line when it starts, one while it runs, one with its time when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_TICK_S = 15.0


class SetupError(Exception):
    """A step of set-up cannot succeed; the message says what was tried and what to do."""


def cache_dir() -> Path:
    """Where downloads and builds are kept between clones: $GPUJOB_CACHE or ~/.cache/gpujob."""
    return Path(os.environ.get("GPUJOB_CACHE") or Path.home() / ".cache" / "gpujob")


def say(text: str) -> None:
    print(text, flush=True)


def run(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    progress: Callable[[Path], str] | None = None,
) -> None:
    """Run `command` with its output in `log`, and say every 15 s how far it is.

    Raises:
        SetupError: the command is missing or ended with another code than 0; carries the tail of its output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(_TICK_S):
            how_far = progress(log) if progress else ""
            say(f"      ... {time.monotonic() - started:.0f} s {how_far}".rstrip())

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        with log.open("wb") as output:
            code = subprocess.run(
                [str(part) for part in command],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                check=False,
            ).returncode
    except FileNotFoundError as error:
        raise SetupError(f"{command[0]} was not found") from error
    finally:
        ended.set()
        ticker.join()
    if code != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
        raise SetupError(
            f"`{' '.join(str(part) for part in command[:4])} ...` ended with {code}:\n{tail}\n(all of it: {log})"
        )


def fail(error: SetupError) -> None:
    """Print the error for a person and end the process with 1."""
    print(f"\nset-up stopped: {error}", file=sys.stderr, flush=True)
    raise SystemExit(1)
