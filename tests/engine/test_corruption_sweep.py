"""Every file of a line, damaged at every region of it in every way, thousands of times: no damage is ever accepted."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from app import ledger, logs
from app.checkpoint import codec, writer
from app.checkpoint.line import Line, finished
from app.checkpoint.names import CHECKPOINTS, DONE, LATEST, LEDGER, QUARANTINE, SHARDS, CheckpointName
from app.checkpoint.resume import NothingLoads
from tests.engine.damage import damages, regions
from tests.engine.lines import ORIGIN, attempt, resume
from tests.engine.memory_store import MemoryStore
from tests.engine.same import difference

DOCUMENT = {"format": 1, "step": 20, "total_steps": 20, "identity": {"workload": "test"}, "finished_at": "now"}


def state(step: int) -> dict[str, Any]:
    """One blob that never changes, two that do."""
    return {
        "base": np.arange(40, dtype=np.float32),
        "w": np.arange(50, dtype=np.float32) + step,
        "step": step,
        "b": np.full(7, step, dtype=np.int64),
    }


def commit(line: Line, step: int) -> None:
    encoded = dataclasses.replace(codec.encode(state(step)), frozen=frozenset({0}))
    line.commit(step, encoded, ORIGIN)


@pytest.fixture(scope="module")
def sound() -> dict[str, bytes]:
    """Steps 10 and 20 are sound, in several shards; 30 was damaged and is in quarantine; the work ended at 20."""
    store = MemoryStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "SHARD_BYTES", 200)
        patch.setattr(logs, "emit", lambda *_args, **_fields: None)
        line = attempt(store, 1)
        for step in (10, 20, 30):
            commit(line, step)
        line.finish(DOCUMENT)
        record = ledger.Record(1, line.attempt.nonce, "job", "execution", 0, 0, "now", last_durable_step=30)
        store.replace(line.attempt.document, record.encode())
        (manifest,) = (name for name in store.objects if name.startswith(f"{CHECKPOINTS}{30:012d}"))
        store.objects[manifest] = store.objects[manifest].replace(b'"test"', b'"tost"')
        assert resumed(store) == 20
    assert files_of(store.objects, 10) & files_of(store.objects, 20), "a shard that both refer to"
    return store.objects


def resumed(store: MemoryStore) -> int | None:
    """The step that a resume takes, None for none; its state must be what was saved."""
    try:
        loaded = resume(store, ever_committed=True)
    except NothingLoads:
        return None
    assert loaded is not None
    assert difference(loaded.state, state(loaded.head.step)) is None, "other bytes than those saved were accepted"
    return loaded.head.step


def files_of(objects: dict[str, bytes], step: int) -> set[str]:
    """The manifest of a checkpoint and the shards that it refers to, its own or another's."""
    (manifest,) = (name for name in objects if name.startswith(f"{CHECKPOINTS}{step:012d}"))
    head = json.loads(objects[manifest].splitlines()[1])
    return {manifest, *(shard["name"] for shard in head["shards"])}


def test_no_damage_of_any_file_at_any_place_is_accepted(sound, monkeypatch, capsys):
    monkeypatch.setattr(logs, "emit", lambda *_args, **_fields: None)
    tried, accepted = Counter[str](), list[str]()
    for name in sound:
        right = next((step for step in (20, 10) if name not in files_of(sound, step)), None)
        for damage in damages(name, sound):
            store = MemoryStore(sound)
            if damage.content is None:
                del store.objects[name]
            else:
                store.objects[name] = damage.content
            tried[name.partition("/")[0]] += 1
            if what := _accepted(store, right):
                accepted.append(f"{name}, {damage.what}: {what}")
    with capsys.disabled():
        told = ", ".join(f"{count} {kind}" for kind, count in tried.items())
        print(f"\ncorruption sweep: {tried.total()} tried, {len(accepted)} accepted ({told})")
    assert accepted == []
    assert set(tried) == {each.rstrip("/") for each in (CHECKPOINTS, SHARDS, QUARANTINE, LEDGER, LATEST, DONE)}


def _accepted(store: MemoryStore, right: int | None) -> str | None:
    """What is wrong with how the line is understood now."""
    try:
        step = resumed(store)
    except Exception as error:  # a crash would come again with every retry
        return repr(error)
    if step != right:
        return f"step {step} was resumed"
    done = finished(store)
    if done is not None and any(done.get(field) != DOCUMENT[field] for field in ("step", "total_steps", "identity")):
        return f"the work is said to be complete: {done}"
    ledger.read_all(store)
    return None


@pytest.mark.parametrize("step", [10, 20, 30])
def test_a_copy_under_another_name_is_not_taken_for_a_checkpoint(sound, step, monkeypatch):
    """Of each manifest and with it its shards: another step, epoch, nonce or try."""
    monkeypatch.setattr(logs, "emit", lambda *_args, **_fields: None)
    (manifest,) = (name for name in sound if name.startswith(f"{CHECKPOINTS}{step:012d}"))
    old = CheckpointName.of_manifest(manifest)
    assert old
    for change in ({"step": 40}, {"epoch": 2}, {"nonce": "aaaaaa", "step": 40}, {"save_try": 1}, {"step": 15}):
        new = dataclasses.replace(old, **change)
        store = MemoryStore(sound)
        store.objects[new.manifest] = sound[manifest]
        for name, content in sound.items():
            if name.startswith(old.shards):
                store.objects[new.shards + name.removeprefix(old.shards)] = content
        assert resumed(store) == 20, new


def test_the_sweep_reaches_every_byte_of_every_file(sound):
    for name, content in sound.items():
        found = regions(name, content)
        assert [each.begin for each in found] == [0, *(each.end for each in found[:-1])]
        assert found[-1].end == len(content)


def test_the_sweep_meets_every_field_of_a_manifest_by_itself(sound):
    (manifest,) = (name for name in sound if name.startswith(f"{CHECKPOINTS}{20:012d}"))
    seal, head, _ = (json.loads(line) for line in sound[manifest].splitlines())
    named = {each.name for each in regions(manifest, sound[manifest])}
    assert named >= {*(f"seal {field}" for field in seal), *(f"head {field}" for field in head), "table"}


def test_the_sweep_would_notice_a_reader_that_does_not_compare(sound, monkeypatch):
    """A test that cannot fail is a bug: with every checksum taken for right, damage is accepted."""
    import crc32c

    monkeypatch.setattr(logs, "emit", lambda *_args, **_fields: None)
    monkeypatch.setattr(crc32c, "crc32c", lambda *_args: 0)
    blind = MemoryStore()
    line = attempt(blind, 1)
    for step in (10, 20):
        commit(line, step)
    (shard, *_) = (name for name in blind.objects if name.startswith(f"{SHARDS}{20:012d}"))
    blind.objects[shard] = blind.objects[shard][:-1] + b"?"
    with pytest.raises(AssertionError, match="other bytes"):
        resumed(blind)
