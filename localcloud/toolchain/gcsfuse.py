"""gcsfuse, the bucket mount of Cloud Run: from PATH, else built with Go; and FUSE's user programs.

Nothing but the tests in tests/mount/ needs it, so a machine that cannot have it is told why and goes without.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from localcloud.toolchain.steps import SetupError, cache_dir, run, say

VERSION = "3.13.0"
_GO = "go1.27.3"
"""What its go.mod asks for; Go fetches it as a module."""
_FUSE = "fusermount3"
DEVICE = Path("/dev/fuse")


def cached_gcsfuse() -> Path:
    """Where set-up puts it when PATH has none."""
    return cache_dir() / "gcsfuse" / f"v{VERSION}" / "bin" / "gcsfuse"


def find_gcsfuse() -> Path | None:
    """The one on PATH, else the cached one, else None."""
    if on_path := shutil.which("gcsfuse"):
        return Path(on_path)
    return cached_gcsfuse() if cached_gcsfuse().exists() else None


def why_no_mount() -> str | None:
    """What keeps this machine from mounting a bucket, and what to do; None if nothing is known to."""
    if not DEVICE.exists():
        return f"there is no {DEVICE} here (a container needs --device {DEVICE})"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} may not be opened by this user"
    if shutil.which(_FUSE) is None:
        return f"{_FUSE} is not on PATH: install the package fuse3 (as root, `make setup` does)"
    if find_gcsfuse() is None:
        return "gcsfuse is neither on PATH nor in the cache: `make setup` builds it with Go, or says why not"
    return None


def install_gcsfuse(logs: Path) -> None:
    """Make it usable where that is possible; says what is missing otherwise, and never fails."""
    if not DEVICE.exists():
        say(f"      not needed: without {DEVICE} nothing can be mounted here")
        return
    try:
        if shutil.which(_FUSE) is None:
            _install_fuse(logs)
        if find_gcsfuse() is None:
            say("      building it with Go (a minute and a half on 2 cores, once)")
            _build(cached_gcsfuse(), logs)
    except SetupError as error:
        say(f"      left out, so the tests through a real mount will be skipped: {error}")
        return
    say(f"      {why_no_mount() or find_gcsfuse()}")


def _install_fuse(logs: Path) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SetupError(f"{_FUSE} is missing; install the package fuse3, e.g. `sudo apt-get install fuse3`")
    log = logs / "fuse3.log"
    install = ["apt-get", "install", "--yes", "--no-install-recommends", "fuse3"]
    try:
        run(install, log=log)
    except SetupError:  # a fresh image has no package lists
        run(["apt-get", "update"], log=log)
        run(install, log=log)


def _build(target: Path, logs: Path) -> None:
    partial = target.parent / f"partial-{os.getpid()}"
    partial.mkdir(parents=True, exist_ok=True)
    try:
        run(
            ["go", "install", "-trimpath", f"github.com/googlecloudplatform/gcsfuse/v3@v{VERSION}"],
            log=logs / "gcsfuse-build.log",
            env={"GOBIN": str(partial), "GOTOOLCHAIN": _GO, "CGO_ENABLED": "0", "GOFLAGS": ""},
        )
        # A build that is cut off leaves no half a binary under the final name.
        (partial / "gcsfuse").replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
