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
from pathlib import Path

from pathspec import PathSpec

IGNORE_FILE = ".dockerignore"
DOCKERFILE = "Dockerfile"


class ContextError(RuntimeError):
    """The folder cannot be a build context."""


def context_files(root: Path) -> list[str]:
    """Paths, relative to `root` and sorted, that `docker build` would be sent. Links are listed, not followed."""
    if not (root / DOCKERFILE).is_file():
        raise ContextError(f"no {DOCKERFILE} in {root}: the image is built from it; restore it or set gpujob:image")
    ignore = root / IGNORE_FILE
    lines = ignore.read_text().splitlines() if ignore.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    spec = PathSpec.from_lines("gitignore", [_anchored(pattern) for pattern in patterns])
    kept_again = [_anchored(pattern)[1:].lstrip("/") for pattern in patterns if pattern.startswith("!")]
    found = {DOCKERFILE}
    for folder, names, files in os.walk(root):
        here = Path(folder).relative_to(root).as_posix()
        prefix = "" if here == "." else f"{here}/"
        links = [name for name in names if Path(folder, name).is_symlink()]
        names[:] = [
            name
            for name in names
            if name not in links
            and (not spec.match_file(f"{prefix}{name}/") or _reaches(f"{prefix}{name}", kept_again))
        ]
        found.update(path for path in (prefix + name for name in (*files, *links)) if not spec.match_file(path))
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


def _anchored(pattern: str) -> str:
    """Docker reads `*.pyc` from the root of the context; gitignore's matcher does so only behind a slash."""
    negation, rest = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    return negation + (rest if rest.startswith(("/", "**/")) else f"/{rest}")


def _reaches(folder: str, kept_again: list[str]) -> bool:
    """Whether something below an ignored folder may be taken back in, so that it must be walked."""
    return any(pattern.startswith((f"{folder}/", "**/")) for pattern in kept_again)


def _entry(path: Path) -> tuple[bytes, bytes]:
    if path.is_symlink():
        return b"l", os.fsencode(path.readlink())
    return (b"x" if path.stat().st_mode & 0o100 else b"f"), path.read_bytes()
