"""Write a golden line of the current format: python -m tests.golden.make tests/golden/format-N

Once a format has its folder, that folder is never written again: it is what old checkpoints look like. A new format
gets a folder of its own, and a line in states.py.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from app import ledger
from app.checkpoint import codec, writer
from app.checkpoint.line import Line
from app.checkpoint.resume import Resumer
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.writer import Origin
from app.contract import ExitCode, Reason, Task
from tests.golden.states import STATES, STEP

ORIGIN = Origin(identity={"workload": "golden"}, environment={"torch": "2"})


def make(folder: Path) -> None:
    """Two attempts: steps 10 and STEP, then STEP + 10 which is damaged, found and recorded. Refuses an old folder."""
    folder.mkdir()
    writer.SHARD_BYTES = 3000  # so that there are several
    store = DirectoryStore(folder)
    for steps in ((10, STEP), (STEP + 10,)):
        record = ledger.Ledger.open(store, Task(folder))
        line = Line(store, record.attempt)
        for step in steps:
            line.commit(step, _encoded(folder.name, step), ORIGIN)
            record.durable(step, step)
        record.end(ExitCode.HANDED_OFF, Reason.HANDED_OFF, steps[-1])
    (damaged,) = folder.glob(f"checkpoints/{STEP + 10:012d}-*.json")
    damaged.write_bytes(damaged.read_bytes()[:-2] + b"?\n")
    Resumer(store, str(record.attempt)).newest(ever_committed=True)
    line.finish({"format": 1, "step": STEP, "total_steps": STEP, "identity": ORIGIN.identity})
    (folder / ".staging").rmdir()


def _encoded(name: str, step: int) -> codec.Encoded:
    """Only the newest sound step holds every kind of value, except where it is about what steps have in common."""
    if step != STEP and not name.endswith("-frozen"):
        return codec.encode(step)
    encoded = codec.encode({**STATES[name](), "step": step})
    frozen = (index for index, blob in enumerate(encoded.blobs) if blob.path.startswith("frozen/"))
    return replace(encoded, frozen=frozenset(frozen))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
