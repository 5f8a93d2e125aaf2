"""The protocol through a real bucket mount: the same suites, and kills in the middle of a shard."""

from __future__ import annotations

import random

import pytest

from app.checkpoint.epochs import Superseded
from app.checkpoint.resume import NothingLoads
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.store import read
from tests.engine.lines import attempt, commit, resume, steps
from tests.engine.test_store_conformance import (  # noqa: F401 - they run here, with the stores of conftest.py
    chunks,
    test_a_listing_is_in_order_and_ends_at_the_prefix_and_at_the_line,
    test_an_object_that_is_not_there_is_told_as_such,
    test_creating_and_publishing_never_overwrite,
    test_deleting_what_is_gone_is_no_error,
    test_replacing_makes_and_overwrites_and_the_next_open_is_a_fresh_read,
    test_the_memory_of_a_chunk_may_be_used_again_for_the_next,
    test_what_the_chunks_raise_comes_out_and_the_store_stays_usable,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mount")]


@pytest.mark.parametrize("size", [0, 1, 5 * 2**20 + 77])
def test_an_object_is_read_back_as_written(store, size):
    content = random.Random(size).randbytes(size)
    assert store.create("shards/a/000.safetensors", chunks(content)).size_bytes == size
    assert read(store, "shards/a/000.safetensors") == content
    assert [entry.size_bytes for entry in store.list("shards/")] == [size]


def test_checkpoints_are_committed_found_and_pruned(store):
    line = attempt(store, 1, keep=2)
    for step in range(1, 5):
        commit(line, step)
        assert resume(store).head.step == step
    assert steps(store) == [3, 4]
    assert len(store.list("shards/")) == 2


def test_a_damaged_checkpoint_is_put_on_record_and_the_one_before_is_used(store):
    line = attempt(store, 1)
    commit(line, 1)
    name = commit(line, 2)
    image = read(store, name.shard(0))
    store.replace(name.shard(0), image[:-1] + bytes([image[-1] ^ 1]))
    assert resume(store).head.step == 1
    assert [entry.name for entry in store.list("quarantine/")] == [name.record]


def test_a_torn_manifest_is_no_checkpoint_and_no_damage(store):
    line = attempt(store, 1)
    commit(line, 1)
    name = commit(line, 2)
    manifest = read(store, name.manifest)
    store.replace(name.manifest, manifest[: len(manifest) // 2])
    assert resume(store).head.step == 1
    assert store.list("quarantine/") == []


def test_when_nothing_loads_it_is_refused(store):
    name = commit(attempt(store, 1), 1)
    store.delete(name.shard(0))
    with pytest.raises(NothingLoads, match="none of them loads"):
        resume(store)


def test_an_older_attempt_that_wakes_up_cannot_commit(store):
    zombie = attempt(store, 1)
    commit(zombie, 10)
    commit(attempt(DirectoryStore(store.root), 2), 12)
    with pytest.raises(Superseded):
        commit(zombie, 20)
    assert resume(store).head.step == 12
