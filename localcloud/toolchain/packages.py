"""The virtual environment: exactly the hash-pinned requirements, installed by uv from its cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from localcloud.toolchain.steps import SetupError, cache_dir, run, say

# Wheels that only a CUDA build of torch needs.
_CUDA_ONLY = re.compile(r"^(torch|triton|nvidia-|cuda-)")
PINNED_IN_ORDER = (
    ("bootstrap", None),
    ("policies", None),
    ("dev", None),
    ("worker", "dev.txt"),
    ("infra", "dev.txt"),
    ("bench", "dev.txt"),
)
"""Every requirements/*.in, and the pins it shares: what is trained, deployed and measured is what is tested."""
_OFFLINE = (
    "The packages come from the Python package index that pip is configured for. Nothing that was installed before has "
    "changed.\nIf this machine is offline, run `make setup` once where it is not, or point PIP_INDEX_URL / "
    "UV_INDEX_URL at a mirror; behind a proxy set HTTPS_PROXY."
)


def install_packages(tree: Path, requirements: Path, *, cpu_torch: bool) -> Path:
    """Make `tree`/.venv hold exactly `requirements` and the project itself (editable); return its interpreter.

    With `cpu_torch` the CUDA wheels are left out and torch's CPU build comes from PyTorch's own index
    (smaller; its hashes are not in the requirements, so it is pinned by version only).

    Raises:
        SetupError: a download was refused or the virtual environment cannot be made.
    """
    project = tomllib.loads((tree / "pyproject.toml").read_text()).get("project")
    logs = tree / "build" / "setup"

    def install(uv: Uv) -> None:
        torch = ""
        wanted = requirements
        if cpu_torch:
            wanted, torch = _without_cuda(requirements, logs / "requirements-cpu.txt")
        uv("pip", "sync", "--require-hashes", wanted)
        if torch:
            uv("pip", "install", "--torch-backend", "cpu", torch)
        uv("pip", "install", "--no-deps", "--no-build-isolation", "-e", tree)

    return _environment(
        tree, tree / ".venv", install, made_from=[requirements.read_text(), repr(project), str(cpu_torch)]
    )


def install_apart(tree: Path, venv: Path, requirements: Path) -> Path:
    """Make `venv` hold exactly `requirements`, which do not fit or do not belong into the tree's own environment.

    Returns its interpreter.

    Raises:
        SetupError: as for `install_packages`.
    """

    def install(uv: Uv) -> None:
        uv("pip", "sync", "--require-hashes", requirements)

    return _environment(tree, venv, install, made_from=[requirements.read_text()])


Uv = Callable[..., None]


def _environment(tree: Path, venv: Path, install: Callable[[Uv], None], *, made_from: Sequence[str]) -> Path:
    """Make `venv` anew by `install` unless its stamp says that it was made from the same; return its interpreter."""
    python = venv / "bin" / "python"
    stamp = venv / "installed.sha256"
    wanted = hashlib.sha256("\0".join([*made_from, sys.version, str(tree)]).encode()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        say("      up to date")
        return python
    stamp.unlink(missing_ok=True)
    binary = _uv(tree)
    log = tree / "build" / "setup" / f"packages-{venv.parent.name}.log"

    def uv(*arguments: str | Path) -> None:
        run([binary, *arguments], log=log, env=_uv_environment() | {"VIRTUAL_ENV": str(venv)})

    try:
        uv("venv", "--clear", "--python", sys.executable, venv)
        install(uv)
    except SetupError as error:
        raise SetupError(f"the Python packages could not be installed.\n{error}\n{_OFFLINE}") from error
    stamp.write_text(wanted)
    return python


def _uv_environment() -> dict[str, str]:
    # Both names of one setting: uv renamed it. It makes a company's own certificate authority count.
    return {"UV_CACHE_DIR": str(cache_dir() / "uv"), "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}


def _uv(tree: Path) -> Path:
    """uv from PATH, else installed by pip with its pinned hashes into the cache."""
    on_path = shutil.which("uv")
    if on_path:
        return Path(on_path)
    pinned = tree / "requirements" / "bootstrap.txt"
    home = cache_dir() / f"uv-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:12]}"
    uv = home / "bin" / "uv"
    if uv.exists():
        return uv
    log = tree / "build" / "setup" / "uv.log"
    try:
        run([sys.executable, "-m", "venv", "--clear", home], log=log)
        run([home / "bin" / "python", "-m", "pip", "install", "--require-hashes", "-r", pinned], log=log)
    except SetupError as error:
        hint = (
            "On Debian and Ubuntu `apt-get install python3-venv` brings venv."
            if "ensurepip" in str(error)
            else _OFFLINE
        )
        shutil.rmtree(home, ignore_errors=True)
        raise SetupError(f"uv, which installs the packages, could not be installed.\n{error}\n{hint}") from error
    return uv


def _without_cuda(requirements: Path, target: Path) -> tuple[Path, str]:
    """Write `requirements` less torch and the CUDA wheels to `target`; return it and torch's pin."""
    kept: list[str] = []
    torch = ""
    skipping = False
    for line in requirements.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            skipping = bool(_CUDA_ONLY.match(line))
            if line.startswith("torch=="):
                torch = line.split()[0].rstrip("\\")
        if not skipping:
            kept.append(line)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(kept) + "\n")
    return target, torch


def compile_requirements(tree: Path) -> None:
    """Pin requirements/*.in again, in `PINNED_IN_ORDER`: hashes in, index addresses out."""
    folder = tree / "requirements"
    uv = _uv(tree)
    common = ["--universal", "--python-version", "3.11", "--generate-hashes", "--quiet", "--upgrade"]
    common += ["--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make requirements"]
    env = os.environ | _uv_environment()
    for name, constraint in PINNED_IN_ORDER:
        extra = ["-c", constraint] if constraint else []
        command = [str(uv), "pip", "compile", *common, *extra, f"{name}.in", "-o", f"{name}.txt"]
        subprocess.run(command, cwd=folder, env=env, check=True)
