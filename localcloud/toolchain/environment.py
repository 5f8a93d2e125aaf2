"""The environment in which literal `pulumi ... -s local` works, and the folder of executables it puts on PATH."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from localcloud.toolchain.google_provider import EXECUTABLE, installed_google_provider
from localcloud.toolchain.launchers import write_launchers
from localcloud.toolchain.pulumi_cli import find_pulumi
from localcloud.toolchain.steps import SetupError

PASSPHRASE = "local"  # noqa: S105 - guards nothing: a local stack has no secrets, the engine only insists on one


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
    state = home / "pulumi-state"
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
    folder.mkdir(parents=True, exist_ok=True)
    write_launchers(folder)
    # An official CLI brings its own language host and dynamic launcher: those are the ones to rehearse with.
    for name in [entry.name for entry in folder.iterdir() if entry.name != EXECUTABLE]:
        if (pulumi.parent / name).exists():
            (folder / name).unlink()
    google = installed_google_provider()
    if google and not shutil.which(EXECUTABLE, path=str(pulumi.parent)):
        (folder / EXECUTABLE).unlink(missing_ok=True)
        (folder / EXECUTABLE).symlink_to(google)
    return folder
