"""A superseded attempt cannot commit: in every order in which its last acts and a newer attempt's claim can fall.

Acts are what the medium sees: requests to Cloud Storage, system calls on a disk.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
import requests

from app.checkpoint import codec, epochs, retention, writer
from app.checkpoint.epochs import Superseded
from app.checkpoint.names import CHECKPOINTS, CheckpointName
from app.checkpoint.storage.cloud_storage import CloudStorageStore
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.medium import Medium
from app.checkpoint.storage.store import STAGED
from tests.engine.buckets import new_bucket
from tests.engine.interleavings import Turns
from tests.engine.lines import ORIGIN, attempt, commit, resume, state, steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.checkpoint.storage.store import Store

pytestmark = pytest.mark.xdist_group("buckets")


def orders(old: int, new: int, more: int) -> list[str]:
    """Each way in which one is interrupted once by acts of the other, and `more` random ones."""
    interrupted = [
        first * begun + second * meanwhile + first * (own - begun) + second * (others - meanwhile)
        for first, own, second, others in (("o", old, "n", new), ("n", new, "o", old))
        for begun in range(own + 1)
        for meanwhile in range(others + 1)
    ]
    chance = random.Random(old)
    shuffled = ["".join(chance.sample("o" * old + "n" * new, old + new)) for _ in range(more)]
    return sorted({*interrupted, *shuffled})


def meet(store: Store, order: str, watch: Callable[[Turns], None]) -> tuple[BaseException | None, bool, list[str]]:
    """An old attempt commits while a new one claims: how the old one ended, whether its commit is there, the acts.

    Asserts what must hold in any order: what is committed was there when the new attempt began to look.
    """
    old = epochs.claim(store, lambda _attempt: b"{}")
    name = CheckpointName.of(old, 7)
    turns = Turns(order)
    watch(turns)

    def commit_last() -> None:
        writer.commit(store, name, codec.encode(state(7)), ORIGIN)

    def take_over() -> list[str]:
        newer = epochs.claim(store, lambda _attempt: b"{}")
        assert newer > old
        return [entry.name for entry in store.list(CHECKPOINTS)]

    outcomes = turns.run(o=commit_last, n=take_over)
    seen, ended = outcomes["n"], outcomes["o"]
    assert isinstance(seen, list), seen
    committed = [entry.name for entry in store.list(CHECKPOINTS)]
    assert committed == seen, f"committed after the claim, in the order {''.join(turns.taken)}"
    assert ended is None or isinstance(ended, Superseded), ended
    assert bool(committed) == (ended is None)
    assert not store.list(STAGED)
    if committed:
        loaded = resume(store)
        assert loaded is not None
        assert loaded.head.step == 7
    return ended, bool(committed), turns.taken


def test_on_a_disk_no_order_lets_it_commit(tmp_path, monkeypatch):
    watched: list[Turns] = []
    for call in ("link", "scandir", "unlink", "open"):
        real = getattr(os, call)

        def watching(*arguments: object, real: Callable[..., object] = real, **more: object) -> object:
            watched[-1].act()
            return real(*arguments, **more)

        monkeypatch.setattr(os, call, watching)

    def attempt_at(number: int, order: str) -> tuple[BaseException | None, bool, list[str]]:
        (root := tmp_path / str(number)).mkdir()
        for folder in ("checkpoints", "shards", "ledger", ".staging"):
            (root / folder).mkdir()
        watched.append(Turns(""))
        return meet(DirectoryStore(root, Medium.DISK), order, watched.append)

    _, _, alone = attempt_at(0, "o" * 100)
    many = orders(alone.count("o"), alone.count("n"), 100)
    outcomes = [attempt_at(number, order)[1] for number, order in enumerate(many, 1)]
    assert 0 < outcomes.count(True) < len(many)  # some were in time, some were not


@pytest.mark.slow
def test_on_cloud_storage_no_order_lets_it_commit(url, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    watched = [Turns("")]
    send = requests.adapters.HTTPAdapter.send

    def watching(self: object, request: object, **more: object) -> object:
        watched[-1].act()
        return send(self, request, **more)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", watching)
    bucket = new_bucket(url)

    def attempt_at(number: int, order: str) -> tuple[BaseException | None, bool, list[str]]:
        watched.append(Turns(""))
        return meet(CloudStorageStore(bucket, f"line-{number}"), order, watched.append)

    _, _, alone = attempt_at(0, "o" * 100)
    own, others = alone.count("o"), alone.count("n")
    assert own == 4, "shard, laying ready, last look, move"
    many = orders(own, others + 1, 60)  # one more: what was laid ready is deleted
    outcomes = [attempt_at(number, order)[1] for number, order in enumerate(many, 1)]
    assert 0 < outcomes.count(True) < len(many)


def test_an_attempt_asleep_right_before_its_commit_finds_that_it_cannot(tmp_path, url, monkeypatch):
    """The case that a look alone cannot see: it looked, slept, and a newer attempt claimed meanwhile."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    (tmp_path / "line").mkdir()
    for store in (CloudStorageStore(new_bucket(url), "line"), DirectoryStore(tmp_path / "line", Medium.DISK)):
        for number in range(1, 21):
            old = epochs.claim(store, lambda _attempt: b"{}")

            def asleep(store: Store = store) -> None:
                epochs.claim(store, lambda _attempt: b"{}")

            with pytest.raises(Superseded, match="works on this checkpoint line now"):
                writer.commit(store, CheckpointName.of(old, number), codec.encode(state(1)), ORIGIN, asleep)
        assert store.list(CHECKPOINTS) == []


def test_a_claim_leaves_what_newer_attempts_and_others_have_laid_ready(tmp_path):
    store = DirectoryStore(tmp_path, Medium.DISK)
    kept = [f"{STAGED}000000000001-e0009-000000.json.abcd", f"{STAGED}latest.json.abcd", f"{STAGED}else"]
    for name in [*kept, f"{STAGED}000000000001-e0001-000000.json.abcd"]:
        store.create(name, [])
    store.publish("ledger/e0007-000000.json", b"{}")
    assert epochs.claim(store, lambda _attempt: b"{}").epoch == 8
    assert sorted(entry.name for entry in store.list(STAGED)) == sorted(kept)


def test_an_older_attempt_that_wakes_up_cannot_commit(tmp_path):
    store = DirectoryStore(tmp_path)
    zombie = attempt(store, 1)
    commit(zombie, 10)
    commit(attempt(store, 2), 12)
    with pytest.raises(Superseded) as end:
        commit(zombie, 20)
    assert end.value.exit_code == 78
    assert str(zombie.attempt) in str(end.value)
    assert resume(store).head.step == 12
    assert not list((tmp_path / "shards").glob("000000000020-*"))


def test_even_a_zombies_later_step_does_not_outrank_the_successor(tmp_path, monkeypatch):
    store = DirectoryStore(tmp_path)
    zombie = attempt(store, 1)
    commit(attempt(store, 2), 12)
    monkeypatch.setattr("app.checkpoint.epochs.superseded_by", lambda _store, _attempt: None)  # it looked too early
    commit(zombie, 20)
    assert resume(store).head.step == 12


def test_of_two_attempts_with_one_epoch_exactly_one_goes_on(tmp_path):
    store = DirectoryStore(tmp_path)
    lines = [attempt(store, 1), attempt(store, 1)]
    outcomes = []
    for line in lines:
        try:
            outcomes.append(str(commit(line, 5)))
        except Superseded:
            outcomes.append("superseded")
    assert outcomes.count("superseded") == 1


def test_an_older_attempt_does_not_prune(tmp_path):
    store = DirectoryStore(tmp_path)
    zombie = attempt(store, 1)
    names = [commit(zombie, step) for step in (1, 2)]
    attempt(store, 2)
    with pytest.raises(Superseded):
        retention.prune(store, zombie.attempt, names)
    assert steps(store) == [1, 2]
