"""A changed byte of a checkpoint does not go unnoticed: the one before is used, and the reason is on record.

On a directory and at some places; test_corruption_sweep.py tries them all, in memory.
"""

from __future__ import annotations

import json

import pytest

from app.checkpoint.storage.directory import DirectoryStore
from tests.engine.corruption.damaged_line import accepted, files_of
from tests.engine.lines import resume

SOME = 23
"""Every so many bytes."""


def places(content: bytes) -> list[int]:
    """Of bytes all over the file, few of them within the spaces that fill up a shard's header."""
    return [at for at in range(len(content)) if at % 500 == 0 or content[at - 1 : at + 2] != b"   "][::SOME]


@pytest.mark.parametrize("part", ["manifest", "shard"])
def test_a_flipped_bit_anywhere_is_found(line, part):
    path = files_of(line, 20)[part]
    sound = path.read_bytes()
    wrong = []
    for at in places(sound):
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
    for length in places(sound):
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


def test_a_changed_length_in_the_seal_looks_torn_and_is_warned_of_by_name(line, capfd):
    manifest = files_of(line, 20)["manifest"]
    manifest.write_bytes(manifest.read_bytes().replace(b'"head_bytes":', b'"head_bytes":9', 1))
    assert accepted(line) == 10
    (told,) = [each for each in capfd.readouterr().out.splitlines() if manifest.stem in each]
    assert "WARNING" in told
    assert "did not finish" in told
