"""Bytes that verify and make no sense are damage, to a load and to verifying; those of another version are not."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import crc32c
import numpy as np
import pytest
import torch

from app.checkpoint import codec, manifest
from app.checkpoint.manifest import Damaged, Unsupported
from app.checkpoint.storage.directory import DirectoryStore
from app.contract import Refusal
from tests.engine.corruption.damaged_line import accepted, files_of, of_shard, of_tensor, resealed, sealed, verified
from tests.engine.lines import ORIGIN, attempt, resume


def test_a_manifest_of_a_newer_format_is_refused_rather_than_passed_over(line):
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
    path = files_of(line, 20)["manifest"]
    lines = [line + b"\n" for line in path.read_bytes().splitlines()[1:]]
    lines[which] = b"[" * 100_000 + b"\n"
    path.write_bytes(sealed(*lines, version=1))
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
