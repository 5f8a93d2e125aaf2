"""Files that are not a checkpoint's: beside its own they are left alone, in the place of one they are not believed."""

from __future__ import annotations

import os
import shutil

import pytest

from app.checkpoint.storage.directory import DirectoryStore
from app.contract import Refusal
from tests.engine.corruption.damaged_line import accepted, files_of
from tests.engine.lines import resume


@pytest.mark.parametrize("name", ["notes.txt", "000000000030.json", "step-30.json", ".DS_Store"])
def test_alien_files_beside_manifests_are_left_alone(line, name):
    (line / "checkpoints" / name).write_text("not ours")
    assert accepted(line) == 20
    assert (line / "checkpoints" / name).exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04pickle", b'{"format":1}\n{}\n', b"[1, 2]\n"])
def test_an_alien_manifest_under_a_proper_name_is_not_believed(line, content):
    files_of(line, 20)["manifest"].write_bytes(content)
    assert accepted(line) == 10


WRONG_KINDS = {
    "a file for the folder of a shard": lambda shard: (shutil.rmtree(shard.parent), shard.parent.write_text("x")),
    "a folder for a shard": lambda shard: (shard.unlink(), shard.mkdir()),
    "a link to itself for a shard": lambda shard: (shard.unlink(), shard.symlink_to(shard)),
    "a link to nothing for a shard": lambda shard: (shard.unlink(), shard.symlink_to("/nonexistent")),
    "a pipe for a shard": lambda shard: (shard.unlink(), os.mkfifo(shard)),
    "a device for a shard": lambda shard: (shard.unlink(), shard.symlink_to("/dev/zero")),
    "a link to itself for their folder": lambda s: (shutil.rmtree(s.parent), s.parent.symlink_to(s.parent)),
}


@pytest.mark.parametrize("change", WRONG_KINDS.values(), ids=WRONG_KINDS.keys())
def test_something_else_in_the_place_of_a_shard_is_damage(line, change):
    change(files_of(line, 20)["shard"])
    assert accepted(line) == 10


@pytest.mark.parametrize(
    "kind", ["folder", "link to itself", "link to nothing", "link to a folder", "link to a device", "pipe"]
)
def test_something_else_in_the_place_of_a_manifest_is_no_checkpoint(line, kind):
    manifest = files_of(line, 20)["manifest"]
    manifest.unlink()
    if kind == "folder":
        manifest.mkdir()
    elif kind == "pipe":
        os.mkfifo(manifest)
    else:
        targets = {"link to itself": manifest, "link to nothing": "/absent", "link to a folder": line}
        manifest.symlink_to(targets.get(kind, "/dev/zero"))
    assert accepted(line) == 10


@pytest.mark.parametrize(
    "name",
    [
        "old/000000000900-e0001-aaaaaa.json",
        "0000000000900-e0001-aaaaaa.json",
        "000000000900-e00001-aaaaaa.json",
        "000000000900-e0001-aaaaaa",
        "".join(chr(0xFF10 + int(digit)) for digit in "000000000900") + "-e0001-aaaaaa.json",
    ],
)
def test_names_that_only_resemble_a_checkpoints_stop_nothing(line, name):
    for folder in ("checkpoints", "quarantine", "ledger"):
        (line / folder / name).parent.mkdir(parents=True, exist_ok=True)
        (line / folder / name).write_text("{}")
    loaded = resume(DirectoryStore(line))
    assert loaded is not None
    assert loaded.head.step == 20


@pytest.mark.parametrize("folder", ["checkpoints", "quarantine", "shards"])
def test_a_file_in_the_place_of_a_folder_of_the_line_is_refused_by_name(line, folder):
    shutil.rmtree(line / folder, ignore_errors=True)
    (line / folder).write_text("")
    with pytest.raises(Refusal, match=f"/?{folder}"):
        resume(DirectoryStore(line))
