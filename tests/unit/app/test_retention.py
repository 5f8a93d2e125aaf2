"""What may be deleted, and what never."""

from __future__ import annotations

import itertools
import os

import pytest

from app.checkpoint.directory import DirectoryStore
from app.checkpoint.names import Attempt, CheckpointName
from app.checkpoint.retention import expendable, prune, sweep

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

    def put(self, store: DirectoryStore, name: CheckpointName, *, manifest: bool = True) -> None:
        store.create(name.shard(0), [memoryview(b"bytes")])
        if manifest:
            store.publish(name.manifest, b"{}")

    def test_the_manifest_goes_before_its_shards(self, store):
        self.put(store, old(1))
        deleted: list[str] = []
        delete = store.delete
        store.delete = lambda name: (deleted.append(name), delete(name))[1]
        prune(store, OWN, [old(1)])
        assert deleted == [old(1).manifest, old(1).shard(0)]

    def test_orphans_go_by_the_stores_own_clock_and_only_of_earlier_attempts(self, store, tmp_path):
        for name in (old(1), old(2), own(3)):
            self.put(store, name, manifest=False)
        self.put(store, old(4))
        for name in (old(1), own(3), old(4)):
            os.utime(tmp_path / name.shard(0), (1000, 1000))
        os.utime(tmp_path / old(2).shard(0), (4000, 4000))
        assert sweep(store, OWN, now_s=5000) == [old(1).shard(0)]
