"""A changed byte of a checkpoint does not go unnoticed: the one before is used, and the reason is on record.

On a directory and at some places; test_corruption_sweep.py tries them all, in memory.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from pathlib import Path

import crc32c
import numpy as np
import pytest
import torch

from app.checkpoint import codec
from app.checkpoint.manifest import Damaged, Unsupported
from app.checkpoint.names import checkpoints_among
from app.checkpoint.resume import NothingLoads
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.verifying import verify
from app.contract import Refusal
from tests.engine.lines import ORIGIN, attempt, commit, resume

SOME = 23
"""Every so many bytes."""


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
    path.write_bytes(manifest.Manifest(decoded.head, decoded.table, newer).encode())
    with pytest.raises(Refusal, match=f"format {newer}"):
        resume(DirectoryStore(line))


def test_a_dtype_that_only_another_torch_knows_is_refused_by_name_and_not_quarantined(line):
    resealed(files_of(line, 20)["manifest"], of_tensor(kind="tensor", dtype="float3_e1m1"))
    with pytest.raises(Refusal, match=r"dtype float3_e1m1, which torch .* does not have"):
        resume(DirectoryStore(line))
    assert not (line / "quarantine").exists()


@pytest.mark.parametrize("name", ["notes.txt", "000000000030.json", "step-30.json", ".DS_Store"])
def test_alien_files_beside_manifests_are_left_alone(line, name):
    (line / "checkpoints" / name).write_text("not ours")
    assert accepted(line) == 20
    assert (line / "checkpoints" / name).exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04pickle", b'{"format":1}\n{}\n', b"[1, 2]\n"])
def test_an_alien_manifest_under_a_proper_name_is_not_believed(line, content):
    files_of(line, 20)["manifest"].write_bytes(content)
    assert accepted(line) == 10


def resealed(path: Path, change) -> None:
    """The manifest with `change(head, table)` made and a seal that is right for it."""
    from app.checkpoint import manifest

    seal, head, table = (json.loads(line) for line in path.read_bytes().splitlines())
    change(head, table)
    lines = [json.dumps(each).encode() + b"\n" for each in (head, table)]
    seal |= {"head_bytes": len(lines[0]), "table_bytes": len(lines[1])}
    seal["crc32c"] = manifest._checksum(seal["format"], *lines)
    path.write_bytes(json.dumps(seal).encode() + b"\n" + b"".join(lines))


def of_tensor(**changes: object):
    return lambda _head, table: [table["tensors"][column].__setitem__(0, to) for column, to in changes.items()]


def of_shard(**changes: object):
    return lambda head, _table: head["shards"][0].update(changes)


SENSELESS = {
    **{f"no {field}": lambda h, _t, field=field: h.pop(field) for field in ("name", "step", "checked", "shards")},
    **{
        f"{field} is {value!r}": lambda h, _t, field=field, value=value: h.update({field: value})
        for field, value in [
            *(("identity", []), ("identity", None), ("environment", None), ("environment", "cpu"), ("step", 3)),
            *(("step", "20"), ("step", True), ("attempt", "e0009-aaaaaa"), ("resumed_from", 5), ("shards", {})),
            *(("shards", [5]), ("shards", [{}])),
        ]
    },
    **{f"shard of {size} bytes": of_shard(size_bytes=size) for size in (10**15, -1, 0, "1", 1e999)},
    **{
        f"shard named {name[:30]!r}": of_shard(name=name)
        for name in (
            *("shards/../../etc/passwd", "/etc/passwd", "shards//x", "shards/./x", "checkpoints/x.json", "shards/"),
            *("shards/" + "x" * 300, "shards/\0", "shards/absent/000.safetensors"),
        )
    },
    **{f"shape {shape!r}": of_tensor(shape=shape) for shape in ([-5], [10**15], [10**30, 0], 5, ["a"], None)},
    **{f"tensor's shape {shape!r}": of_tensor(kind="tensor", shape=shape) for shape in ([-5], [10**15], [10**30, 0])},
    **{f"dtype {dtype!r}": of_tensor(dtype=dtype) for dtype in ("float3", "object", "V8", "f4,f4", 7, None)},
    **{f"tensor's dtype {d!r}": of_tensor(kind="tensor", dtype=d) for d in ("nn", "int", "float 3", "", 7)},
    **{f"begin {begin!r}": of_tensor(begin=begin) for begin in (10**12, -4, "x", None, 1.5)},
    **{f"kind {kind!r}": of_tensor(kind=kind) for kind in ("object", None)},
    **{f"in shard {shard!r}": of_tensor(shard=shard) for shard in (1, -1, "x", None)},
    "columns of unequal length": lambda _h, t: t["tensors"]["begin"].append(0),
    "no column of paths": lambda _h, t: t["tensors"].pop("path"),
    "no tree": lambda _h, t: t.pop("tree"),
    "no tensors": lambda _h, t: t.pop("tensors"),
    "unknown mark": lambda _h, t: t["tree"].update(w={"$frob": 1}),
    "no such tensor": lambda _h, t: t["tree"].update(w={"$tensor": 99}),
    "pairs that are none": lambda _h, t: t["tree"].update(w={"$dict": [5]}),
    "unhashable key": lambda _h, t: t["tree"].update(w={"$dict": [[[], 5]]}),
    "bytes not in base64": lambda _h, t: t["tree"].update(w={"$bytes": "%"}),
}


@pytest.mark.parametrize("change", SENSELESS.values(), ids=SENSELESS.keys())
def test_what_verifies_and_makes_no_sense_is_damage_and_the_one_before_is_used(line, change):
    path = files_of(line, 20)["manifest"]
    resealed(path, change)
    loaded = resume(DirectoryStore(line))
    assert loaded is not None
    assert loaded.head.step == 10
    assert [record.name for record in (line / "quarantine").iterdir()] == [path.name]


def verified(line: Path) -> None:
    store = DirectoryStore(line)
    verify(store, max(checkpoints_among(store.list("checkpoints/"))), sleep=lambda _s: None)


@pytest.mark.parametrize("change", SENSELESS.values(), ids=SENSELESS.keys())
def test_what_verifies_and_makes_no_sense_is_found_without_loading_too(line, change):
    verified(line)
    resealed(files_of(line, 20)["manifest"], change)
    with pytest.raises(Damaged):
        verified(line)


def test_verifying_tells_a_dtype_of_another_torch_from_damage(line):
    resealed(files_of(line, 20)["manifest"], of_tensor(kind="tensor", dtype="float3_e1m1"))
    with pytest.raises(Unsupported, match="float3_e1m1"):
        verified(line)


@pytest.mark.parametrize("header", [b"", b"\x00" * 7, struct.pack("<Q", 2**40), struct.pack("<Q", 2**64 - 1)])
def test_a_shard_whose_header_leaves_no_room_for_its_tensors_is_damage_to_verify_and_to_load(line, header):
    files = files_of(line, 20)
    content = header + files["shard"].read_bytes()[8:] if len(header) == 8 else header
    files["shard"].write_bytes(content)
    resealed(files["manifest"], of_shard(size_bytes=len(content), crc32c=f"{crc32c.crc32c(content):08x}"))
    with pytest.raises(Damaged, match="not as its manifest says"):
        verified(line)
    assert accepted(line) == 10


UNKNOWN = {"$ordered": [["a", {"$enum": ["unknown", "A"]}]]}


def test_a_class_that_only_its_program_knows_is_no_damage_to_verify(line):
    path = files_of(line, 20)["manifest"]
    resealed(path, lambda _h, t: t["tree"].update(first=UNKNOWN))
    verified(line)
    resealed(path, lambda _h, t: t["tree"].update(last={"$dict": [[1, {"$tensor": 99}]]}))
    with pytest.raises(Damaged):
        verified(line)


def test_verifying_needs_no_memory_for_the_state(tmp_path):
    store = DirectoryStore(tmp_path)
    state = {
        "one": torch.zeros(2**24),
        "two": np.zeros(2**24, np.float32),
        **{str(i): np.zeros(2**15) for i in range(99)},
    }
    attempt(store, 1).commit(10, codec.encode(state), ORIGIN)  # 150 MiB
    del state
    verified(tmp_path)
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_kib("VmRSS")
    verified(tmp_path)
    assert memory_kib("VmHWM") - before < 32 * 1024


def memory_kib(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{field}:")[1].split()[0])


@pytest.mark.parametrize("which", [0, 1])
def test_json_that_is_nested_without_end_is_damage(line, which):
    from app.checkpoint import manifest

    path = files_of(line, 20)["manifest"]
    lines = [line + b"\n" for line in path.read_bytes().splitlines()[1:]]
    lines[which] = b"[" * 100_000 + b"\n"
    seal = {"format": 1, "head_bytes": len(lines[0]), "table_bytes": len(lines[1])}
    seal["crc32c"] = manifest._checksum(1, *lines)
    path.write_bytes(json.dumps(seal).encode() + b"\n" + b"".join(lines))
    assert accepted(line) == 10


def test_fields_that_only_another_version_knows_are_ignored(line):
    def change(head, table):
        head.update(compression="none")
        head["shards"][0].update(medium="disk")
        table.update(extra=1)
        table["tensors"].update(note=["x", "y"])

    resealed(files_of(line, 20)["manifest"], change)
    assert accepted(line) == 20


GENERATORS = {"python": random.Random(1).getstate()}


@pytest.mark.parametrize(
    "state",
    [
        [1],
        {},
        {"step": 20},
        {"rng": GENERATORS},
        {"step": 19, "rng": GENERATORS},
        {"step": "20", "rng": GENERATORS},
        *({"step": 20, "rng": rng} for rng in (None, 5, {}, {"python": 5}, {"python": (3, (1, 2), None)})),
        {"step": 20, "rng": {**GENERATORS, "numpy": 5}},
        {"step": 20, "rng": {**GENERATORS, "torch": 5}},
        {"step": 20, "rng": {**GENERATORS, "torch": torch.zeros(3, dtype=torch.uint8)}},
        {"step": 20, "rng": {**GENERATORS, "cuda": [5]}},
    ],
    ids=lambda state: str(state)[:50],
)
def test_a_state_that_no_session_can_go_on_from_is_damage_too(tmp_path, state):
    store = DirectoryStore(tmp_path)
    first = attempt(store, 1)
    good = {"step": 10, "rng": {**GENERATORS, "numpy": np.random.get_state(), "torch": torch.get_rng_state()}}
    first.commit(10, codec.encode(good), ORIGIN)
    first.commit(20, codec.encode(state), ORIGIN)
    second = attempt(store, 2)
    second.sleep = lambda _s: None
    loaded = second.resume(ever_committed=True)
    assert loaded is not None
    assert loaded.state["step"] == 10


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


def test_a_changed_length_in_the_seal_looks_torn_and_is_warned_of_by_name(line, capfd):
    manifest = files_of(line, 20)["manifest"]
    manifest.write_bytes(manifest.read_bytes().replace(b'"head_bytes":', b'"head_bytes":9', 1))
    assert accepted(line) == 10
    (told,) = [each for each in capfd.readouterr().out.splitlines() if manifest.stem in each]
    assert "WARNING" in told
    assert "did not finish" in told


@pytest.mark.parametrize("folder", ["checkpoints", "quarantine", "shards"])
def test_a_file_in_the_place_of_a_folder_of_the_line_is_refused_by_name(line, folder):
    shutil.rmtree(line / folder, ignore_errors=True)
    (line / folder).write_text("")
    with pytest.raises(Refusal, match=f"/?{folder}"):
        resume(DirectoryStore(line))


class TestNothingLeft:
    """No manifest is whole and no ledger document either: was there ever a checkpoint?"""

    @pytest.fixture
    def emptied(self, line):
        for path in [*(line / "checkpoints").iterdir(), *(line / "ledger").iterdir()]:
            path.write_bytes(b"")
        return line

    @pytest.mark.parametrize("hint", ["sound", "torn", "empty"])
    def test_the_hint_is_only_written_after_a_commit_so_there_was(self, emptied, hint):
        latest = emptied / "latest.json"
        latest.write_bytes(latest.read_bytes()[: {"sound": None, "torn": 9, "empty": 0}[hint]])
        with pytest.raises(NothingLoads, match=r"latest\.json") as refusal:
            resume(DirectoryStore(emptied))
        assert str(refusal.value).count("its manifest is cut short") == 2

    def test_a_quarantine_record_says_so_too(self, emptied):
        (emptied / "latest.json").unlink()
        (emptied / "quarantine").mkdir()
        (emptied / "quarantine/000000000005-e0001-aaaaaa.json").write_text("{}")
        with pytest.raises(NothingLoads, match="quarantine"):
            resume(DirectoryStore(emptied))

    @pytest.mark.parametrize("manifest", ["torn", "none"])
    def test_shards_alone_are_what_a_first_save_leaves_when_it_is_killed(self, emptied, manifest):
        (emptied / "latest.json").unlink()
        if manifest == "none":
            shutil.rmtree(emptied / "checkpoints")
        assert list((emptied / "shards").iterdir())
        assert resume(DirectoryStore(emptied)) is None
