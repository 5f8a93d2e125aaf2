"""Trees in a directory: written, and looked at as a whole."""

from __future__ import annotations

import stat
from pathlib import Path

from app.checkpoint.line import Line


def write(tree: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)


def contents(tree: Path) -> dict[str, object]:
    """Everything that is to come back."""
    found: dict[str, object] = {}
    for path in sorted(tree.rglob("*")):
        name, status = str(path.relative_to(tree)), path.lstat()
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            content = path.read_bytes() if path.is_file() else None
            found[name] = (stat.S_IMODE(status.st_mode), status.st_mtime_ns, content)
    return found


def objects(line: Line) -> list[str]:
    return [entry.name for folder in ("checkpoints/", "shards/") for entry in line.store.list(folder)]
