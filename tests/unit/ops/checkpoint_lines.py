"""Small real checkpoint lines, and the command line to look at them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from app.checkpoint import codec
from app.checkpoint.line import Line
from app.checkpoint.names import Attempt, CheckpointName
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.writer import Origin
from app.contract import Task
from app.ledger import Ledger
from ops.cli import app

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
ORIGIN = Origin(identity={"workload": "test"}, environment={"python": "3.11"})


def gpujob(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["checkpoints", *map(str, arguments)], env=WIDE)


def said(result: Result) -> str:
    """Its output with line ends as spaces; an unforeseen exception is raised."""
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return " ".join(result.output.split())


def line_at(path: Path, *, keep: int = 100, ended: bool = True) -> Line:
    """An attempt's line; `ended` as its ledger document says."""
    path.mkdir(parents=True, exist_ok=True)
    store = DirectoryStore(path)
    ledger = Ledger.open(store, Task(path.parent))
    if ended:
        record = replace(ledger.record, ended_at="2026-01-31T12:00:00+00:00")
        store.replace(ledger.attempt.document, record.encode())
    return Line(store, ledger.attempt, keep)


def commit(line: Line, step: int, state: Any = None) -> CheckpointName:
    content = {"step": step, "w": bytes([step % 256]) * 8} if state is None else state
    return line.commit(step, codec.encode(content), ORIGIN)


def files_of(line: Path, name: CheckpointName) -> dict[str, Path]:
    shards = sorted((line / name.shards).glob("*"))
    return {"manifest": line / name.manifest, "shard": shards[0]} if shards else {"manifest": line / name.manifest}


def flip(path: Path, at: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def all_files(line: Path) -> dict[str, bytes]:
    return {str(path.relative_to(line)): path.read_bytes() for path in sorted(line.rglob("*")) if path.is_file()}


def steps(line: Path) -> list[int]:
    return sorted(int(path.name[:12]) for path in (line / "checkpoints").glob("*.json"))


def rows(line: Path) -> list[dict[str, Any]]:
    return json.loads(gpujob("list", line, "--json").stdout)["checkpoints"]


__all__ = ["Attempt", "all_files", "commit", "files_of", "flip", "gpujob", "line_at", "rows", "said", "steps"]
