"""Writes the executables that the Pulumi CLI looks for on PATH: the language host and the plugins, all in Python."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from localcloud import TREE

LANGUAGE_HOST = "pulumi-language-python"
MARK = ".launchers"
"""A file in every folder of launchers: a `pulumi` beside it is a link of ours, not an installed one."""

# Run a module of this tree: found from anywhere, with nothing of the caller's folder on sys.path.
_OWN = "-P -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()' {root}"


def _own(module: str) -> str:
    return _OWN.format(module=module, root=shlex.quote(str(TREE)))


_LAUNCHERS = {
    LANGUAGE_HOST: _own("localcloud.toolchain.language_host"),
    "pulumi-resource-gcp": _own("localcloud.provider.__main__"),
    # Dynamic resources unpickle classes of the program, so this one keeps the program's folder on sys.path.
    "pulumi-resource-pulumi-python": "-u -m pulumi.dynamic",
}


def write_launchers(directory: Path, python: Path | None = None) -> list[Path]:
    """Write one small shell script a plugin into `directory` and return their paths.

    Args:
        directory: made if missing; to be put on PATH for local stacks only.
        python: the interpreter that has pulumi installed; by default the one that runs this.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARK).touch()
    # abspath, not resolve: the python of a virtual environment is a link, and following it would leave the environment.
    interpreter = shlex.quote(os.path.abspath(python or sys.executable))  # noqa: PTH100
    written: list[Path] = []
    for name, words in _LAUNCHERS.items():
        target = directory / name
        text = f'#!/bin/sh\nexec {interpreter} {words} "$@"\n'
        if target.is_symlink() or not target.exists() or target.read_text() != text:
            # Replaced, never written through: the name may be a link to a plugin that is not ours, or be running.
            fresh = directory / f".{name}.{os.getpid()}"
            fresh.write_text(text)
            fresh.chmod(0o755)
            fresh.replace(target)
        written.append(target)
    return written
