"""The Pulumi CLI: from PATH, else its official release, else built with Go from its published modules."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from localcloud.toolchain.launchers import MARK
from localcloud.toolchain.steps import SetupError, cache_dir, run, say

VERSION = "3.274.1"
# Older engines lack calls that the SDK pinned in requirements/infra.in makes.
MINIMUM = (3, 272, 0)
_MODULES = Path(__file__).parent / "pulumi"
_LDFLAGS = f"-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{VERSION}"
_PACKAGES_COMPILED = 1700


def cached_pulumi() -> Path:
    """Where set-up puts the CLI when PATH has none."""
    return cache_dir() / "pulumi" / f"v{VERSION}" / "bin" / "pulumi"


def find_pulumi() -> Path | None:
    """The CLI that local stacks use: the one on PATH if new enough, else the cached one, else None."""
    # Our own links to a CLI are left out: what they link to may have been replaced since.
    folders = [each for each in os.environ.get("PATH", "").split(os.pathsep) if not Path(each, MARK).exists()]
    on_path = shutil.which("pulumi", path=os.pathsep.join(folders))
    if on_path and _version(Path(on_path)) >= MINIMUM:
        return Path(on_path)
    return cached_pulumi() if cached_pulumi().exists() else None


def install_pulumi(python: Path, logs: Path) -> Path:
    """Return the path of a usable CLI, installing it into the cache when there is none.

    `python` is an interpreter that has the Pulumi SDK, whose Automation API runs the official installer.

    Raises:
        SetupError: neither the release nor the modules could be had; names both attempts.
    """
    found = find_pulumi()
    if found:
        say(f"      {'on PATH' if found != cached_pulumi() else 'up to date'}")
        return found
    target = cached_pulumi()
    say("      trying the official release")
    official = _official(python, target.parent.parent, logs)
    if official is None:
        say("      installed from the official release")
        return target
    say("      not reachable; building it with Go from its published modules (about 4 minutes, once)")
    try:
        _build(target, logs)
    except SetupError as error:
        raise SetupError(
            "the Pulumi CLI could not be installed. Tried:\n"
            f"  1. the official release: {official}\n"
            f"  2. a build with Go: {error}\n"
            "Nothing else is affected. Either install Pulumi yourself (https://www.pulumi.com/docs/install/), so that\n"
            "`pulumi` is on PATH, or install Go 1.26 or newer and let this machine reach a Go module proxy (GOPROXY),\n"
            "then run `make setup` again."
        ) from error
    return target


def _version(pulumi: Path) -> tuple[int, ...]:
    try:
        text = subprocess.run([pulumi, "version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return (0,)
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text.strip())
    return tuple(int(part) for part in numbers.groups()) if numbers else (0,)


def _official(python: Path, root: Path, logs: Path) -> str | None:
    """Run the official installer through the Automation API; None when it worked, else why not."""
    script = (
        "import sys; from semver import VersionInfo; from pulumi.automation import PulumiCommand; "
        "PulumiCommand.install(root=sys.argv[1], version=VersionInfo.parse(sys.argv[2]))"
    )
    try:
        run([python, "-c", script, root, VERSION], log=logs / "pulumi-official.log")
    except SetupError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return next((line for line in reversed(lines) if "Error" in line), lines[-1]).strip()
    return None


def _build(target: Path, logs: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"pulumi.partial-{os.getpid()}")
    command = ["go", "build", "-v", "-mod=readonly", "-trimpath", "-tags=osusergo,grpcnotrace", "-ldflags", _LDFLAGS,
               "-o", partial, "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"]  # fmt: skip
    run(
        command,
        log=logs / "pulumi-build.log",
        cwd=_MODULES,
        env={"CGO_ENABLED": "0", "GOFLAGS": ""},
        progress=lambda log: _how_far(log.read_text(errors="replace")),
    )
    # A build that is cut off leaves no half a binary under the final name.
    partial.replace(target)


def _how_far(log: str) -> str:
    lines = log.splitlines()
    downloads = sum(line.startswith("go: downloading") for line in lines)
    return f"{downloads} modules downloaded, {len(lines) - downloads} of about {_PACKAGES_COMPILED} packages compiled"
