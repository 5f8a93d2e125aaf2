"""The environment in which literal `pulumi ... -s local` works, and the folder of executables it puts on PATH."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from localcloud.toolchain.google_provider import EXECUTABLE, installed_google_provider
from localcloud.toolchain.launchers import LANGUAGE_HOST, write_launchers
from localcloud.toolchain.pulumi_cli import find_pulumi
from localcloud.toolchain.steps import SetupError

PASSPHRASE = "local"  # noqa: S105 - guards nothing: a local stack has no secrets, the engine only insists on one

STATE_FOLDER = "pulumi-state"
"""The folder that is the engine's backend, and by which a local one is told from others."""


def local_environment(tree: Path, port: int, *, home: Path | None = None) -> dict[str, str]:
    """Variables for the engine and Google's clients on the local cloud at `port`.

    Args:
        tree: the checkout; its `build/` keeps the engine's state, so nothing outside it is written.
        port: the local cloud's port on 127.0.0.1.
        home: where the engine's state and settings go, `tree`/build by default (tests use their own).

    Raises:
        SetupError: there is no Pulumi CLI yet.
    """
    pulumi = find_pulumi()
    if pulumi is None:
        raise SetupError("there is no Pulumi CLI on PATH or in the cache. Run `make setup` first.")
    home = home or tree / "build"
    state = home / STATE_FOLDER
    state.mkdir(parents=True, exist_ok=True)
    executables = write_executables(tree / "build" / "bin", pulumi)
    # abspath, not resolve: a virtual environment's python is a link, and its folder is what matters.
    interpreter = Path(os.path.abspath(sys.executable)).parent  # noqa: PTH100
    path = [str(executables), str(pulumi.parent), str(interpreter), os.environ.get("PATH", "")]
    return {
        "PATH": os.pathsep.join(path),
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_HOME": str(home / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
    }


def write_executables(folder: Path, pulumi: Path) -> Path:
    """Fill `folder` with what the engine looks for on PATH and this machine lacks: hosts and the provider."""
    for launcher in write_launchers(folder):
        # An official CLI brings its own language host and dynamic launcher: those are the ones to rehearse with.
        if launcher.name != EXECUTABLE and _comes_with(pulumi, launcher.name):
            launcher.unlink()
    _link_cli(folder / "pulumi", pulumi)
    google = installed_google_provider()
    if google and not shutil.which(EXECUTABLE, path=str(pulumi.parent)):
        (folder / EXECUTABLE).unlink(missing_ok=True)
        (folder / EXECUTABLE).symlink_to(google)
    return folder


def _comes_with(pulumi: Path, name: str) -> bool:
    return any((folder / name).exists() for folder in (pulumi.parent, pulumi.resolve().parent))


def _link_cli(link: Path, pulumi: Path) -> None:
    """Put a CLI that comes alone beside the launchers: it takes what lies beside it for its own, and warns of the rest.

    A hard link, since it follows symbolic ones to find out where it lies. Where none can be made (another file system)
    there is none, and the warnings stay.
    """
    if link.exists() and link.samefile(pulumi):
        return
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    try:
        if _comes_with(pulumi, LANGUAGE_HOST):
            link.unlink(missing_ok=True)
        else:
            os.link(pulumi.resolve(), fresh)
            fresh.replace(link)
    except OSError:
        link.unlink(missing_ok=True)  # an older one would be run instead of the one that was chosen
