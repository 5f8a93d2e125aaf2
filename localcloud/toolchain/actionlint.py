"""actionlint, which reads the workflows in .github/ as GitHub would: built with Go from its published module."""

from __future__ import annotations

import os
from pathlib import Path

from localcloud.toolchain.steps import SetupError, cache_dir, run, say

VERSION = "1.7.12"
_MODULES = Path(__file__).parent / "actionlint"


def cached_actionlint() -> Path:
    """Where set-up puts it."""
    return cache_dir() / "actionlint" / f"v{VERSION}" / "actionlint"


def install_actionlint(logs: Path) -> Path | None:
    """Build it into the cache unless it is there; None where it cannot be built: only one test asks it."""
    target = cached_actionlint()
    if target.exists():
        say("      up to date")
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"actionlint.partial-{os.getpid()}")
    command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", partial,
               "github.com/rhysd/actionlint/cmd/actionlint"]  # fmt: skip
    try:
        run(command, log=logs / "actionlint.log", cwd=_MODULES, env={"CGO_ENABLED": "0", "GOFLAGS": ""})
    except SetupError:
        say("      not to be had here (it needs Go); the test that asks it is reported as not run")
        return None
    partial.replace(target)
    return target
