"""No byte of a checkpoint can change unnoticed: the one before is used, and the reason is on record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.checkpoint.directory import DirectoryStore
from app.checkpoint.resume import NothingLoads
from app.contract import Refusal
from tests.engine.lines import attempt, commit, resume


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """Steps 10 and 20 are committed; 20 is the one to be damaged."""
    root = tmp_path / "line"
    root.mkdir()
    first = attempt(DirectoryStore(root), 1)
    commit(first, 10)
    commit(first, 20)
    return root


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


@pytest.mark.parametrize("part", ["manifest", "shard"])
def test_a_flipped_bit_anywhere_is_found(line, part):
    path = files_of(line, 20)[part]
    sound = path.read_bytes()
    wrong = []
    for at in range(len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ (1 << at % 8)]) + sound[at + 1 :])
        if accepted(line) != 10:
            wrong.append(at)
    assert wrong == []
    path.write_bytes(sound)
    assert accepted(line) == 20


@pytest.mark.parametrize("part", ["manifest", "shard"])
def test_a_file_cut_anywhere_is_found(line, part):
    path = files_of(line, 20)[part]
    sound = path.read_bytes()
    for length in range(len(sound)):
        path.write_bytes(sound[:length])
        assert accepted(line) == 10, f"cut to {length} bytes"


@pytest.mark.parametrize("part", ["manifest", "shard"])
@pytest.mark.parametrize("damage", ["longer", "doubled", "other checkpoint's", "zeros", "missing"])
def test_other_damage_is_found(line, part, damage):
    path, other = files_of(line, 20)[part], files_of(line, 10)[part]
    sound = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        changed = {
            "longer": sound + b"\0",
            "doubled": sound * 2,
            "other checkpoint's": other.read_bytes(),
            "zeros": bytes(len(sound)),
        }
        path.write_bytes(changed[damage])
    assert accepted(line) == 10


def test_damage_is_recorded_with_its_reason_and_nothing_is_moved(line):
    files = files_of(line, 20)
    files["shard"].write_bytes(files["shard"].read_bytes()[:-1] + b"\xff")
    loaded = resume(DirectoryStore(line))
    assert loaded is not None
    assert loaded.head.step == 10
    (record,) = (line / "quarantine").iterdir()
    content = json.loads(record.read_text())
    assert record.name == files["manifest"].name
    assert "crc32c" in content["reason"]
    assert all(path.exists() for path in files.values())


def test_a_checkpoint_in_quarantine_is_not_read_again(line):
    files_of(line, 20)["shard"].write_bytes(b"damaged")
    resume(DirectoryStore(line))
    files_of(line, 20)["shard"].unlink()
    loaded = resume(DirectoryStore(line))
    assert loaded is not None
    assert loaded.head.step == 10


def test_a_torn_manifest_is_ignored_and_never_quarantined(line):
    manifest = files_of(line, 20)["manifest"]
    manifest.write_bytes(manifest.read_bytes()[:-5])
    loaded = resume(DirectoryStore(line))
    assert loaded is not None
    assert loaded.head.step == 10
    assert not (line / "quarantine").exists()


def test_if_nothing_loads_the_refusal_lists_every_reason(line):
    for step in (10, 20):
        files_of(line, step)["shard"].write_bytes(b"damaged")
    with pytest.raises(NothingLoads) as refusal:
        resume(DirectoryStore(line))
    message = str(refusal.value)
    assert "000000000010" in message
    assert "000000000020" in message
    assert "step 0" in message
    assert refusal.value.exit_code == 78


def test_a_later_refusal_still_says_what_was_wrong_with_each_checkpoint(line):
    for step in (10, 20):
        shard = files_of(line, step)["shard"]
        shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    with pytest.raises(NothingLoads) as first:
        resume(DirectoryStore(line))
    with pytest.raises(NothingLoads) as second:
        resume(DirectoryStore(line))
    for told in (str(first.value), str(second.value)):
        assert told.count("has crc32c") == 2
    assert str(second.value).count("(found by test at ") == 2


def test_a_torn_quarantine_record_still_keeps_its_checkpoint_out_and_says_that_it_is_torn(line):
    for step in (10, 20):
        files_of(line, step)["shard"].write_bytes(b"damaged")
    with pytest.raises(NothingLoads):
        resume(DirectoryStore(line))
    for record in (line / "quarantine").iterdir():
        record.write_text(record.read_text()[:9])
    with pytest.raises(NothingLoads) as refusal:
        resume(DirectoryStore(line))
    assert str(refusal.value).count("is torn") == 2


def test_if_every_manifest_is_gone_but_the_ledger_knows_of_one_it_does_not_start_over(line):
    shutil.rmtree(line / "checkpoints")
    with pytest.raises(NothingLoads, match="ledger"):
        resume(DirectoryStore(line), ever_committed=True)


def test_a_fresh_line_has_nothing_to_resume(tmp_path):
    assert resume(DirectoryStore(tmp_path)) is None


def test_a_manifest_of_a_newer_format_is_refused_rather_than_passed_over(line):
    from app.checkpoint import manifest

    path = files_of(line, 20)["manifest"]
    decoded = manifest.Manifest.decode(path.read_bytes())
    newer = manifest.FORMAT + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "FORMAT", newer)
        path.write_bytes(decoded.encode())
    with pytest.raises(Refusal, match=f"format {newer}"):
        resume(DirectoryStore(line))


@pytest.mark.parametrize("name", ["notes.txt", "000000000030.json", "step-30.json", ".DS_Store"])
def test_alien_files_beside_manifests_are_left_alone(line, name):
    (line / "checkpoints" / name).write_text("not ours")
    assert accepted(line) == 20
    assert (line / "checkpoints" / name).exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04pickle", b'{"format":1}\n{}\n', b"[1, 2]\n"])
def test_an_alien_manifest_under_a_proper_name_is_not_believed(line, content):
    files_of(line, 20)["manifest"].write_bytes(content)
    assert accepted(line) == 10
