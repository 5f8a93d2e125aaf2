"""A line with two checkpoints, of which a test damages the newer one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from app.checkpoint import manifest as manifests
from app.checkpoint.names import checkpoints_among
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.verifying import verify
from tests.engine.lines import resume


def files_of(root: Path, step: int) -> dict[str, Path]:
    (manifest,) = root.glob(f"checkpoints/{step:012d}-*.json")
    (shard,) = root.glob(f"shards/{step:012d}-*/000.safetensors")
    return {"manifest": manifest, "shard": shard}


def accepted(root: Path) -> int:
    """The step that a resume takes; quarantine records are cleared, so that each damage is met afresh."""
    loaded = resume(DirectoryStore(root))
    shutil.rmtree(root / "quarantine", ignore_errors=True)
    assert loaded is not None
    assert loaded.state["w"][0] == loaded.head.step
    return loaded.head.step


def resealed(path: Path, change) -> None:
    """The manifest with `change(head, table)` made and a seal that is right for it."""
    seal, head, table = (json.loads(line) for line in path.read_bytes().splitlines())
    change(head, table)
    path.write_bytes(sealed(*(json.dumps(each).encode() + b"\n" for each in (head, table)), version=seal["format"]))


def sealed(head: bytes, table: bytes, version: int) -> bytes:
    seal = {"format": version, "head_bytes": len(head), "table_bytes": len(table)}
    seal["crc32c"] = manifests._checksum(version, head, table)
    return json.dumps(seal).encode() + b"\n" + head + table


def of_tensor(**changes: object):
    return lambda _head, table: [table["tensors"][column].__setitem__(0, to) for column, to in changes.items()]


def of_shard(**changes: object):
    return lambda head, _table: head["shards"][0].update(changes)


def verified(line: Path) -> None:
    store = DirectoryStore(line)
    verify(store, max(checkpoints_among(store.list("checkpoints/"))), sleep=lambda _s: None)
