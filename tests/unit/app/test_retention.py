"""What may be deleted, and what never."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from app.checkpoint import codec, reader
from app.checkpoint.heads import Heads
from app.checkpoint.line import Line
from app.checkpoint.manifest import Head, Manifest, Shard
from app.checkpoint.names import CHECKPOINTS, Attempt, CheckpointName, checkpoints_among
from app.checkpoint.retention import expendable, milestones, prune, release, sweep
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.writer import Origin

if TYPE_CHECKING:
    from app.checkpoint.codec import Encoded

ORIGIN = Origin({}, {})
OLD, OWN = Attempt(1, "aaaaaa"), Attempt(2, "bbbbbb")


def old(step: int) -> CheckpointName:
    return CheckpointName.of(OLD, step)


def own(step: int) -> CheckpointName:
    return CheckpointName.of(OWN, step)


def test_fewer_verified_than_wanted_delete_nothing():
    assert expendable([old(1), old(2), old(3), own(4)], [old(3), own(4)], 3, old(3), OWN) == []


def test_what_ranks_below_the_last_n_verified_goes_oldest_first():
    present = [own(7), old(1), own(6), old(2), own(5)]
    assert expendable(present, [own(5), own(6), own(7)], 2, None, OWN) == [old(1), old(2), own(5)]


def test_unverified_checkpoints_do_not_count_towards_the_last_n():
    present = [old(1), old(2), old(8), old(9), own(4)]
    assert expendable(present, [old(2), own(4)], 2, None, OWN) == [old(1)]


def test_what_was_resumed_from_stays_until_there_are_two_commits_of_ones_own():
    assert old(3) not in expendable([old(3), own(4)], [old(3), own(4)], 2, old(3), OWN)
    assert expendable([old(3), own(4), own(5)], [old(3), own(4), own(5)], 2, old(3), OWN) == [old(3)]


def test_keeping_fewer_than_two_is_an_error():
    with pytest.raises(ValueError, match="keep is 1"):
        expendable([], [], 1, None, OWN)


def test_whatever_is_present_the_last_two_verified_are_never_deleted():
    names = [old(1), old(5), old(9), own(2), own(6)]
    for size in range(len(names) + 1):
        for verified in itertools.combinations(names, size):
            for keep in (2, 3):
                doomed = expendable(names, verified, keep, None, OWN)
                assert not set(sorted(verified)[-2:]) & set(doomed)


class TestPruning:
    @pytest.fixture
    def store(self, tmp_path) -> DirectoryStore:
        store = DirectoryStore(tmp_path)
        for attempt in (OLD, OWN):
            store.publish(attempt.document, b"{}")
        return store

    def put(self, store: DirectoryStore, name: CheckpointName, *, manifest: bool = True, refers_to: str = "") -> None:
        """A checkpoint with one shard of its own, and perhaps one of another's."""
        store.create(name.shard(0), [memoryview(b"bytes")])
        names = [name.shard(0), *([refers_to] if refers_to else [])]
        if manifest:
            shards = tuple(Shard(each, 5, "00000000") for each in names)
            head = Head(str(name), name.step, str(name.attempt), "now", {}, {}, None, "size", shards)
            store.publish(name.manifest, Manifest(head, b"{}").encode())

    def shards(self, store: DirectoryStore) -> list[str]:
        return [entry.name for entry in store.list("shards/")]

    def prune(self, store: DirectoryStore, doomed: list[CheckpointName]) -> set[CheckpointName]:
        prune(store, OWN, doomed)
        return release(OWN, doomed, Heads(store))

    def test_manifests_go_before_shards(self, store):
        for step in (1, 2):
            self.put(store, old(step))
        deleted: list[str] = []
        delete = store.delete
        store.delete = lambda name: (deleted.append(name), delete(name))[1]
        assert self.prune(store, [old(1), old(2)]) == set()
        assert deleted == [old(1).manifest, old(2).manifest, old(1).shard(0), old(2).shard(0)]

    def test_a_shard_that_another_checkpoint_refers_to_stays_until_that_one_goes(self, store):
        self.put(store, old(1))
        self.put(store, own(2), refers_to=old(1).shard(0))
        self.put(store, own(3), refers_to=old(1).shard(0))
        assert self.prune(store, [old(1)]) == {old(1)}
        assert self.prune(store, [own(2), old(1)]) == {old(1)}
        assert self.shards(store) == [old(1).shard(0), own(3).shard(0)]
        assert self.prune(store, [own(3), old(1)]) == set()
        assert self.shards(store) == []

    @pytest.mark.parametrize("content", [b"", b"no manifest", b"{}\n"])
    def test_while_one_head_cannot_be_read_no_shard_goes(self, store, content):
        self.put(store, old(1))
        store.publish(own(2).manifest, content)
        assert self.prune(store, [old(1)]) == {old(1)}
        assert self.shards(store) == [old(1).shard(0)]
        assert sweep(OWN, store.list("shards/"), 1e12, Heads(store)) == []
        store.delete(own(2).manifest)
        assert self.prune(store, [old(1)]) == set()

    def test_orphans_go_by_the_stores_own_clock_and_only_of_earlier_attempts(self, store, tmp_path):
        for name in (old(1), old(2), own(3)):
            self.put(store, name, manifest=False)
        self.put(store, old(4))
        for name in (old(1), own(3), old(4)):
            os.utime(tmp_path / name.shard(0), (1000, 1000))
        os.utime(tmp_path / old(2).shard(0), (4000, 4000))
        assert sweep(OWN, store.list("shards/"), 5000, Heads(store)) == [old(1).shard(0)]

    def test_an_orphan_that_a_later_checkpoint_refers_to_stays(self, store):
        self.put(store, old(1), manifest=False)
        self.put(store, own(2), refers_to=old(1).shard(0))
        assert sweep(OWN, store.list("shards/"), 1e12, Heads(store)) == []

    def test_of_every_so_many_steps_one_whole_checkpoint_stays(self, store):
        for name in (old(10), old(20), old(25), old(30), own(30), old(40)):
            self.put(store, name)
        store.publish(old(50).manifest, b"torn")
        store.publish(old(40).record, b"{}")
        present = [old(10), old(20), old(25), old(30), own(30), old(40), old(50)]
        assert milestones(present, 10, Heads(store)) == {old(10), old(20), own(30)}

    def test_where_no_save_fell_on_a_multiple_the_first_one_past_it_stays(self, store):
        present = [old(3), old(15), old(25), own(35), own(38), own(41), own(60)]
        for name in present:
            self.put(store, name)
        assert milestones(present, 20, Heads(store)) == {old(25), own(41), own(60)}


def line(store: DirectoryStore, attempt: Attempt = OWN, **options: int) -> Line:
    store.publish(attempt.document, b"{}")
    return Line(store, attempt, **options)


def steps_of(store: DirectoryStore) -> list[int]:
    return sorted(name.step for name in checkpoints_among(store.list(CHECKPOINTS)))


def state(step: int) -> dict[str, object]:
    return {"step": step, "moving": np.full(100, step), "still": np.arange(1000)}


def encoded(step: int) -> Encoded:
    """`still` is frozen."""
    found = codec.encode(state(step))
    return replace(found, frozen=frozenset(i for i, blob in enumerate(found.blobs) if blob.path == "still"))


def test_checkpoints_of_every_so_many_steps_stay_over_attempts(tmp_path):
    store = DirectoryStore(tmp_path)
    first = line(store, OLD, keep=2, keep_every=10)
    for step in (5, 10, 15, 20, 25):
        first.commit(step, encoded(step), ORIGIN)
    assert steps_of(store) == [10, 20, 25]
    second = line(store, keep=2, keep_every=10)
    second.check = lambda _any: None
    second.resume(ever_committed=True)
    for step in (30, 35, 40, 45):
        second.commit(step, encoded(step), ORIGIN)
    assert steps_of(store) == [10, 20, 30, 40, 45]
    for name in checkpoints_among(store.list(CHECKPOINTS)):
        assert reader.load(store, name).state["step"] == name.step


@pytest.mark.parametrize("keep_every", [None, 3])
def test_a_pruning_that_is_cut_at_any_deletion_leaves_everything_loadable(tmp_path, keep_every):
    class Cut(Exception):  # noqa: N818 - a kill
        pass

    for cut in itertools.count():
        store = DirectoryStore(tmp_path / str(cut))
        store.root.mkdir()
        working = line(store, OLD, keep=2, keep_every=keep_every)
        deletions = itertools.count()
        delete = store.delete

        def deleting(name: str, delete=delete, deletions=deletions, cut=cut) -> None:
            if next(deletions) == cut:
                raise Cut
            delete(name)

        store.delete = deleting
        try:
            for step in range(1, 7):
                working.commit(step, encoded(step), ORIGIN)
        except Cut:
            pass
        else:
            break
        store.delete = delete
        everything_loads(store)
        taking_over = line(store, keep=2, keep_every=keep_every)
        taking_over.check = lambda _any: None
        taking_over.resume(ever_committed=True)
        for step in range(7, 10):
            taking_over.commit(step, encoded(step), ORIGIN)
        everything_loads(store)
    assert cut > 5


def everything_loads(store: DirectoryStore) -> None:
    names = checkpoints_among(store.list(CHECKPOINTS))
    assert len(names) >= 2
    for name in names:
        loaded = reader.load(store, name).state
        assert loaded["step"] == name.step
        assert loaded["moving"][0] == name.step
        assert list(loaded["still"]) == list(range(1000))
