"""Checkpoints that earlier versions wrote load as what was saved, for ever."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from app import ledger
from app.checkpoint import codec
from app.checkpoint.line import finished
from app.checkpoint.meaning import refuse_senseless
from app.checkpoint.resume import Resumer
from app.checkpoint.storage.directory import DirectoryStore
from tests.engine.lines import ORIGIN, of_any_state
from tests.engine.packed import Packed
from tests.engine.same import difference
from tests.golden import second_reader
from tests.golden.states import STATES, STEP, Parts, Phase, Plan, Point

HERE = Path(__file__).parent
SEALED = {
    "format-1": "ef48603042fd9a6d1e082acf0c1abb4c021863ecc930aa714437139782a1276a",
    "format-2": "4ad57e2ab18d0038940fe18f27ae05d17fce5b07591cc518e11bd4bd6c0f3d93",
    "format-2-frozen": "15c6a5f6bb3368b8b6db556e380df951fbebbb3bc4971535fc03f5bb9835cc82",
}
"""SHA-256 over every file's name and bytes: a golden line made again would prove nothing about old checkpoints."""

CLASSES: second_reader.Classes = {
    "golden.phase": Phase,
    "golden.parts": Parts,
    "golden.point": Point,
    "golden.plan": Plan,
    "golden.packed": Packed,
}


@pytest.fixture(params=STATES)
def line(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: nothing may be written among the golden ones."""
    return Path(shutil.copytree(HERE / request.param, tmp_path / request.param))


def test_the_newest_sound_checkpoint_loads_and_equals_what_was_saved(line):
    loaded = Resumer(DirectoryStore(line), "test", lambda _s: None, refuse_senseless).newest(ever_committed=True)
    assert loaded is not None
    assert loaded.head.step == STEP
    assert difference(loaded.state, STATES[line.name]()) is None
    assert loaded.state["tied"]["a"] is loaded.state["tied"]["b"]


def test_a_reader_made_from_the_page_alone_chooses_the_same_one_and_reads_the_same(line):
    found = second_reader.newest(line)
    assert found is not None
    assert found.step == STEP
    state = second_reader.state(line, found, CLASSES)
    assert difference(state, STATES[line.name]()) is None
    assert state["tied"]["a"] is state["tied"]["b"]
    done = second_reader.done(line)
    assert done is not None
    assert done["step"] == STEP


@pytest.mark.parametrize("name", STATES)
def test_it_reads_what_is_written_today(name, tmp_path):
    of_any_state(tmp_path).commit(STEP, codec.encode(STATES[name]()), ORIGIN)
    found = second_reader.newest(tmp_path)
    assert found is not None
    assert difference(second_reader.state(tmp_path, found, CLASSES), STATES[name]()) is None


def test_its_ledger_and_its_end_are_understood(line):
    records = ledger.read_all(DirectoryStore(line))
    assert [(record.epoch, record.last_durable_step, record.exit_code) for record in records] == [
        (1, 20, 75),
        (2, 30, 75),
    ]
    done = finished(DirectoryStore(line))
    assert done is not None
    assert (done["step"], done["identity"]) == (STEP, {"workload": "golden"})
    assert len(list((line / "quarantine").iterdir())) == 1


def test_the_frozen_line_refers_to_shards_of_the_checkpoint_before():
    (manifest,) = (HERE / "format-2-frozen/checkpoints").glob(f"{STEP:012d}-*.json")
    shards = [shard["name"] for shard in json.loads(manifest.read_text().splitlines()[1])["shards"]]
    assert {name.removeprefix("shards/")[:12] for name in shards} == {f"{10:012d}", f"{STEP:012d}"}


@pytest.mark.parametrize("name", STATES)
def test_a_golden_line_is_never_made_again(name):
    digest = hashlib.sha256()
    for path in sorted(path for path in (HERE / name).rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(HERE)} {path.stat().st_size}\n".encode() + path.read_bytes())
    assert digest.hexdigest() == SEALED[name]


def test_every_folder_of_golden_checkpoints_is_tested():
    assert {path.name for path in HERE.iterdir() if path.name.startswith("format-")} == set(STATES)
