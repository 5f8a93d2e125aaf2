"""The build context: which files go into the image, one hash of their content, and the archive that is uploaded.

Pure functions over a folder. The hash depends on names, contents and executable bits only, never on times, owners or
ignored files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathspec import PathSpec

IGNORE_FILE = ".dockerignore"
DOCKERFILE = "Dockerfile"


class ContextError(RuntimeError):
    """The folder cannot be a build context."""


def context_files(root: Path) -> list[str]:
    """Paths, relative to `root` and sorted, that `docker build` would be sent. Links are listed, not followed."""
    if not (root / DOCKERFILE).is_file():
        raise ContextError(f"no {DOCKERFILE} in {root}: the image is built from it; restore it or set gpujob:image")
    rules = _ignore_rules(root / IGNORE_FILE)
    found = {DOCKERFILE}
    for folder, names, files in os.walk(root):
        here = Path(folder).relative_to(root)
        links = [name for name in names if Path(folder, name).is_symlink()]
        # Ignored folders are not walked unless a rule takes something in them back in: .venv alone has 50,000 files.
        names[:] = [name for name in names if name not in links and _walk(here / name, rules)]
        found.update(
            path.as_posix() for path in (here / name for name in (*files, *links)) if not _ignored(path, rules)
        )
    return sorted(found)


def context_hash(root: Path) -> str:
    """64 hex digits over every file's path, executable bit and content."""
    digest = hashlib.sha256()
    for path in context_files(root):
        kind, content = _entry(root / path)
        for part in (path.encode(), kind, hashlib.sha256(content).digest()):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def pack(root: Path) -> bytes:
    """The context as .tar.gz; equal contexts give equal bytes."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in context_files(root):
            kind, content = _entry(root / path)
            info = tarfile.TarInfo(path)
            info.mode = 0o755 if kind == b"x" else 0o644
            if kind == b"l":
                info.type, info.linkname = tarfile.SYMTYPE, content.decode()
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return gzip.compress(archive.getvalue(), mtime=0)


@dataclass(frozen=True)
class _Rule:
    """One line of the ignore file."""

    keeps: bool
    """It began with an exclamation mark: what it matches is taken back in."""
    pattern: str
    spec: PathSpec[Any]


def _ignore_rules(file: Path) -> list[_Rule]:
    rules: list[_Rule] = []
    for line in map(str.strip, file.read_text().splitlines() if file.is_file() else []):
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!").strip("/")
        # Docker reads `*.md` from the root of the context; the matcher does so only behind a slash.
        spec = PathSpec.from_lines("gitignore", [pattern if pattern.startswith("**/") else f"/{pattern}"])
        rules.append(_Rule(line.startswith("!"), pattern, spec))
    return rules


def _ignored(path: Path, rules: list[_Rule]) -> bool:
    """As Docker decides: the last rule that matches the path or a folder above it wins."""
    candidates = [path.as_posix(), *(above.as_posix() for above in path.parents if above != Path())]
    verdict = False
    for rule in rules:
        if verdict == rule.keeps and any(map(rule.spec.match_file, candidates)):
            verdict = not rule.keeps
    return verdict


def _walk(folder: Path, rules: list[_Rule]) -> bool:
    inside = (f"{folder.as_posix()}/", "**/")
    return not _ignored(folder, rules) or any(rule.keeps and rule.pattern.startswith(inside) for rule in rules)


def _entry(path: Path) -> tuple[bytes, bytes]:
    if path.is_symlink():
        return b"l", os.fsencode(path.readlink())
    return (b"x" if path.stat().st_mode & 0o100 else b"f"), path.read_bytes()
