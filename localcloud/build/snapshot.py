"""An image's file system as a directory: what the Dockerfile copies, under a digest of exactly that content."""

import glob
import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pathspec

from localcloud.build.dockerfile import BuildError, Copy, Stage, parse

Say = Callable[[str], None]
Kept = Callable[[str], bool]


@dataclass(frozen=True)
class Snapshot:
    """A built image that nobody has pushed yet."""

    root: Path
    stage: Stage
    """The last one: its environment, working directory and command are the image's."""
    digest: str
    """`sha256:...`"""


def build(
    context: Path, dockerfile: Path, build_arguments: Mapping[str, str], work: Path, say: Say
) -> Snapshot:
    """Apply a Dockerfile to a context; the files of the image lie below `work`.

    Raises:
        BuildError: a COPY source or the command does not exist.
    """
    in_context = _ignored(context, dockerfile)
    stages = parse(dockerfile.read_text(), build_arguments)
    roots: dict[str, Path] = {}
    recipe: list[str] = []
    root = work
    for number, stage in enumerate(stages):
        root = work / f"stage-{number}"
        root.mkdir(parents=True)
        say(f"FROM {stage.base}")
        recipe.append(f"FROM {stage.base}")
        if stage.base in roots:
            shutil.copytree(roots[stage.base], root, dirs_exist_ok=True, symlinks=True)
        for step in stage.steps:
            if isinstance(step, str):
                say(f"{step}\n ---> not executed: the job runs with the Python of this machine")
                recipe.append(step)
            else:
                _copy(step, context, in_context, roots=roots, root=root, say=say)
        roots[stage.name] = roots[str(number)] = root
    final = stages[-1]
    (root / final.working_directory.strip("/")).mkdir(parents=True, exist_ok=True)
    _check_command(final, root)
    return Snapshot(root, final, _digest(root, final, recipe))


def _ignored(context: Path, dockerfile: Path) -> Kept:
    """Tells which files of the context an image may see."""
    own = dockerfile.with_name(dockerfile.name + ".dockerignore")
    file = own if own.is_file() else context / ".dockerignore"
    lines = file.read_text().splitlines() if file.is_file() else []
    anchored: list[str] = []
    for line in (each.strip() for each in lines):
        if line and not line.startswith("#"):
            sign, pattern = ("!", line[1:]) if line.startswith("!") else ("", line)
            anchored.append(f"{sign}/{pattern.strip().lstrip('/')}")  # Docker's patterns start at the root
    spec = pathspec.PathSpec.from_lines("gitwildmatch", anchored)
    return lambda path: not spec.match_file(path)


def _copy(step: Copy, context: Path, in_context: Kept, *, roots: Mapping[str, Path], root: Path, say: Say) -> None:
    target = root / step.target.strip("/")
    if not step.sources:  # WORKDIR
        target.mkdir(parents=True, exist_ok=True)
        return
    say(step.text)
    base, kept = context, in_context
    if step.origin:
        if step.origin not in roots:
            say(f" ---> skipped: files of the image {step.origin!r} are not available on this machine")
            return
        base, kept = roots[step.origin], _everything
    for source in step.sources:
        if source.startswith(("http://", "https://", "git@")):
            say(f" ---> skipped: {source} is not fetched")
            continue
        files = _matching(base, source, kept)
        if not files:
            raise BuildError(
                f"{step.text}: COPY failed: file not found in build context or excluded by .dockerignore: {source}"
            )
        into_directory = step.target.endswith("/") or len(step.sources) > 1 or len(files) > 1 or glob.has_magic(source)
        for path, relative, is_directory in files:
            into = into_directory or is_directory or target.is_dir()
            _place(path, target / relative if into else target, base)


def _everything(_path: str) -> bool:
    return True


def _matching(base: Path, source: str, kept: Kept) -> list[tuple[Path, str, bool]]:
    """(path, name below the target, came from a directory) of everything the source names; a directory means its
    contents."""
    found: list[tuple[Path, str, bool]] = []
    pattern = os.path.normpath(source.lstrip("/")) if source.strip("/.") else "."
    if pattern.startswith(".."):
        raise BuildError(f"COPY failed: forbidden path outside the build context: {source}")
    for name in sorted(glob.glob(pattern, root_dir=base, include_hidden=True)) if pattern != "." else ["."]:  # noqa: PTH207
        path = base / name
        if path.is_dir():
            below = [
                each
                for each in sorted(path.rglob("*"))
                if not each.is_dir() and kept(each.relative_to(base).as_posix())
            ]
            found += [(each, each.relative_to(path).as_posix(), True) for each in below]
            if not below and any(path.iterdir()) and pattern != ".":
                continue
            if not below and pattern != ".":
                found.append((path, "", True))
        elif path.exists() and kept(name):
            found.append((path, path.name, False))
    return found


def _place(path: Path, target: Path, base: Path) -> None:
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return
    if not path.resolve().is_relative_to(base.resolve()):
        raise BuildError(f"COPY failed: {path.relative_to(base)} is a link that leads out of the build context.")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)


def _check_command(stage: Stage, root: Path) -> None:
    program = [*stage.entrypoint, *stage.command]
    if not program:
        return
    directory = root / stage.working_directory.strip("/")
    head, rest = program[0], program[1:]
    if PurePosixPath(head).name in {"python", "python3"}:
        while rest and rest[0] in {"-u", "-O", "-B", "-I", "-E"}:
            rest = rest[1:]
        if rest[:1] == ["-m"] and len(rest) > 1 and not _has_module(rest[1], directory):
            raise BuildError(
                f"The command {program} cannot start: module {rest[1]!r} is neither in the image "
                f"(under WORKDIR {stage.working_directory}) nor installed for the Python of this machine."
            )
        if rest and rest[0].endswith(".py") and not _exists(rest[0], directory, root):
            raise BuildError(f"The command {program} cannot start: {rest[0]!r} is not in the image.")
    elif not _exists(head, directory, root) and shutil.which(head) is None:
        raise BuildError(f"The command {program} cannot start: {head!r} is neither in the image nor on this machine.")


def _has_module(module: str, directory: Path) -> bool:
    parts = module.split(".")
    path = directory.joinpath(*parts)
    if path.with_suffix(".py").is_file() or (path / "__main__.py").is_file():
        return True
    if (directory / parts[0]).exists() or (directory / f"{parts[0]}.py").exists():
        return False
    # A module of this machine counts only if it does not happen to lie in the server's own working directory.
    spec = importlib.util.find_spec(parts[0])
    return spec is not None and not Path(str(spec.origin or "")).is_relative_to(Path.cwd() / parts[0])


def _exists(name: str, directory: Path, root: Path) -> bool:
    return (root / name.strip("/")).exists() if name.startswith("/") else (directory / name).exists()


def _digest(root: Path, stage: Stage, recipe: list[str]) -> str:
    digest = hashlib.sha256()
    head = {
        "recipe": recipe,
        "working_directory": stage.working_directory,
        "environment": stage.environment,
        "entrypoint": stage.entrypoint,
        "command": stage.command,
    }
    digest.update(json.dumps(head, sort_keys=True).encode())
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        executable = os.access(path, os.X_OK) and path.stat().st_mode & 0o100 != 0
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(json.dumps([path.relative_to(root).as_posix(), executable, content]).encode())
    return f"sha256:{digest.hexdigest()}"
