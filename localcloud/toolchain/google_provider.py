"""Google's own provider plugin, where it can be downloaded; elsewhere local stacks use `localcloud.provider`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from localcloud.toolchain.steps import SetupError, cache_dir, run, say

VERSION = "10.2.0"
"""Of the plugin, which is that of the SDK: a test holds it to requirements/infra.in."""
EXECUTABLE = "pulumi-resource-gcp"
_REFUSAL_HOLDS_S = 86_400.0


def installed_google_provider() -> Path | None:
    """The executable of Google's plugin in the cache, or None. GPUJOB_PROVIDER=python hides it."""
    if os.environ.get("GPUJOB_PROVIDER") == "python":
        return None
    executable = _home() / "plugins" / f"resource-gcp-v{VERSION}" / EXECUTABLE
    return executable if executable.exists() else None


def install_google_provider(pulumi: Path, logs: Path) -> Path | None:
    """Download Google's plugin into the cache unless it is there; None where it cannot be had.

    A refused download is remembered for a day, so that the next set-up does not wait for it again.
    """
    found = installed_google_provider()
    refused = _home() / f"refused-{VERSION}"
    refused_lately = refused.exists() and time.time() - refused.stat().st_mtime < _REFUSAL_HOLDS_S
    if found or refused_lately or os.environ.get("GPUJOB_PROVIDER") == "python":
        say("      up to date")
        return found
    command = [pulumi, "plugin", "install", "resource", "gcp", f"v{VERSION}"]
    try:
        run(command, log=logs / "provider.log", env={"PULUMI_HOME": str(_home())})
    except SetupError:
        _home().mkdir(parents=True, exist_ok=True)
        refused.touch()
        say("      not to be had here; local stacks use the built-in one (same calls, loopback only)")
        return None
    return installed_google_provider()


def provider_in_use(bin_dir: Path) -> str:
    """Which provider a local stack runs, for reports: 'google 10.2.0' or 'localcloud.provider'."""
    executable = bin_dir / EXECUTABLE
    return f"google {VERSION}" if executable.is_symlink() else "localcloud.provider"


def _home() -> Path:
    return cache_dir() / "pulumi-home"
