"""Bytes go where they belong, whatever lies beside them, and every one of them is summed."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import crc32c
import numpy as np
import pytest
import torch

from app.checkpoint import codec, reader
from app.checkpoint.manifest import Damaged
from app.checkpoint.names import Attempt, CheckpointName
from app.checkpoint.shards import shard_plan, stripes
from app.checkpoint.shards.crc32c_combine import combine
from app.checkpoint.shards.shard_plan import Extent, Planner
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.patience import StoreUnavailable
from app.checkpoint.table import Table
from app.contract import Refusal
from tests.engine.lines import ORIGIN, Failing, attempt, of_any_state

if TYPE_CHECKING:
    from pathlib import Path

    from app.checkpoint.line import Line

ODD = {
    "flag": torch.tensor([True, False, True]),  # three bytes: whatever follows lies askew
    "wide": torch.arange(5, dtype=torch.float64),
    "nothing": torch.empty((3, 0)),
    "scalar": torch.tensor(3.5, dtype=torch.bfloat16),
    "large": torch.arange(70_001, dtype=torch.int32).view(-1, 1),
    "complex": torch.tensor([1 + 2j, 3 - 4j]),
    "array": np.arange(11, dtype=np.int16),
    "large array": np.arange(300_000, dtype=np.float64),
    "0-d array": np.array(7, dtype=np.uint64),
}


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return of_any_state(tmp_path)


def saved(line: Line, state: dict[str, object], step: int = 1) -> CheckpointName:
    return line.commit(step, codec.encode(state), ORIGIN)


def alike(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        assert isinstance(other, torch.Tensor)
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    assert isinstance(other, np.ndarray)
    return bool(one.dtype == other.dtype and one.shape == other.shape and (one == other).all())  # type: ignore[attr-defined]


def test_values_of_every_size_and_alignment_come_back_in_memory_of_their_own(line):
    state = reader.load(line.store, saved(line, ODD)).state
    assert all(alike(state[key], value) for key, value in ODD.items())
    for value in state.values():
        value[...] = 0  # each can be written
        address = value.data_ptr() if isinstance(value, torch.Tensor) else value.ctypes.data
        assert address % (64 if isinstance(value, torch.Tensor) else value.dtype.itemsize) == 0
    assert all(not value.any() for value in state.values())


@pytest.mark.parametrize("chosen", [["large"], ["flag", "wide"], ["scalar", "complex", "large"], list(ODD)[:6]])
def test_existing_tensors_are_filled_in_place_and_the_rest_is_fresh(line, chosen):
    mine = {path: torch.zeros_like(ODD[path]) for path in chosen}
    state = reader.load(line.store, saved(line, ODD), into=lambda _head, _table: mine).state
    assert all(alike(state[key], value) for key, value in ODD.items())
    assert all(alike(mine[path], ODD[path]) for path in chosen)
    assert all(state[path].data_ptr() == mine[path].data_ptr() for path in chosen)


@pytest.mark.parametrize(
    "other",
    [
        torch.zeros(70_001, dtype=torch.int32),
        torch.zeros((70_001, 1), dtype=torch.float32),
        torch.zeros((70_001, 2), dtype=torch.int32)[:, :1],
        torch.zeros((70_001, 1), dtype=torch.int32, device="meta"),
    ],
    ids=["another shape", "another dtype", "not contiguous", "without memory"],
)
def test_a_tensor_that_the_bytes_do_not_fit_is_left_alone(line, other):
    state = reader.load(line.store, saved(line, ODD), into=lambda _head, _table: {"large": other}).state
    assert alike(state["large"], ODD["large"])
    assert other.is_meta or not other.any()


def test_odd_sizes_make_no_other_tensor_lie_askew_in_its_file(line):
    state = {f"{kind}{number}": torch.zeros(size) for number in range(9) for kind, size in (("odd", 1), ("even", 32))}
    manifest = reader.read_manifest(line.store, saved(line, state))
    places = Table.decode(manifest.table, manifest.format).places
    assert {place.path for place in places if place.begin % 64 == 0} >= {path for path in state if path[0] == "e"}


def test_a_tensor_that_occurs_twice_is_one_tensor_again_and_one_that_is_filled_too(line):
    tied = torch.arange(9)
    name = saved(line, {"a": tied, "b": [tied]})
    state = reader.load(line.store, name).state
    assert state["a"] is state["b"][0]
    mine = torch.zeros_like(tied)
    state = reader.load(line.store, name, into=lambda _head, _table: {"a": mine}).state
    assert state["a"] is state["b"][0]
    assert torch.equal(mine, tied)


def test_a_refusal_comes_before_any_byte_is_read(line, tmp_path):
    name = saved(line, ODD)
    store = Failing(tmp_path)

    def no_shards(operation: str, asked: str) -> None:
        assert (operation, asked.startswith("shards")) != ("open", True)

    store.fail = no_shards

    def refuse(head: object, table: object) -> dict[str, torch.Tensor]:
        raise Refusal("not this one")

    with pytest.raises(Refusal, match="not this one"):
        reader.load(store, name, into=refuse)


@pytest.mark.parametrize("cores", [1, 4])
def test_several_threads_in_one_file_read_what_one_does(line, monkeypatch, cores):
    monkeypatch.setattr(stripes, "threads", lambda: cores)
    monkeypatch.setattr(stripes, "STRIPE_BYTES", 2**16)
    monkeypatch.setattr(shard_plan, "PIECE_BYTES", 2**14)
    state = {**ODD, **{f"small {number}": torch.full((number,), number) for number in range(400)}}
    mine = {f"small {number}": torch.zeros(number, dtype=torch.int64) for number in range(0, 400, 3)}
    loaded = reader.load(line.store, saved(line, state), into=lambda _head, _table: mine)
    assert all(alike(loaded.state[key], value) for key, value in state.items())
    assert all(alike(tensor, state[path]) for path, tensor in mine.items())


@pytest.mark.parametrize("at", [0.1, 0.5, 0.999])
def test_a_flipped_byte_is_found_by_whichever_thread_reads_it(line, tmp_path, monkeypatch, at):
    monkeypatch.setattr(stripes, "threads", lambda: 4)
    monkeypatch.setattr(stripes, "STRIPE_BYTES", 2**16)
    name = saved(line, ODD)
    (path,) = (tmp_path / name.shards).iterdir()
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 4
    path.write_bytes(content)
    with pytest.raises(Damaged):
        reader.load(line.store, name)


def test_no_thread_still_writes_into_the_tensors_once_a_load_has_failed(line, tmp_path, monkeypatch):
    monkeypatch.setattr(stripes, "threads", lambda: 4)
    monkeypatch.setattr(stripes, "STRIPE_BYTES", 2**16)
    name = saved(line, ODD)
    (path,) = (tmp_path / name.shards).iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(Damaged):
        reader.load(line.store, name)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read")]


class TestTensorsThatAreHalfFilled:
    """A reading that fails leaves bytes of what was not believed: only another reading or the end may follow."""

    @pytest.fixture
    def mine(self) -> torch.Tensor:
        return torch.zeros(70_001, 1, dtype=torch.int32)

    def damaged(self, line: Line, root: Path, step: int, value: int) -> None:
        name = saved(line, {"large": torch.full((70_001, 1), value, dtype=torch.int32)}, step)
        (path,) = (root / name.shards).iterdir()
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")

    def test_the_one_before_is_read_over_all_of_them(self, line, tmp_path, mine):
        saved(line, {"large": torch.full((70_001, 1), 5, dtype=torch.int32)}, 1)
        self.damaged(line, tmp_path, 2, 6)
        loaded = line.resume(ever_committed=True, into=lambda _head, _table: {"large": mine})
        assert loaded is not None
        assert bool((mine == 5).all())

    def test_if_nothing_loads_the_attempt_ends(self, line, tmp_path, mine):
        self.damaged(line, tmp_path, 2, 6)
        with pytest.raises(Refusal, match=r"delete the record quarantine/NAME\.json"):
            line.resume(ever_committed=True, into=lambda _head, _table: {"large": mine})
        assert bool((mine == 6).any())

    def test_if_all_vanishes_meanwhile_the_attempt_ends_instead_of_beginning_with_them(self, tmp_path, mine):
        line = attempt(DirectoryStore(tmp_path), 1)
        line.check = lambda _any_state: None
        name = saved(line, {"large": torch.full((70_001, 1), 6, dtype=torch.int32)}, 1)
        (tmp_path / "latest.json").unlink()
        store = line.store = Failing(tmp_path)

        def vanish(operation: str, asked: str) -> None:
            if operation == "open" and asked.startswith("shards"):
                (tmp_path / name.manifest).unlink()
                (tmp_path / asked).unlink()

        store.fail = vanish
        with pytest.raises(StoreUnavailable, match="nothing may start from them"):
            line.resume(ever_committed=False, into=lambda _head, _table: {"large": mine})


def test_extents_that_overlap_or_end_behind_the_file_are_refused():
    for extents in ([Extent(8, 10, 0), Extent(17, 3, 1)], [Extent(8, 100, 0)]):
        with pytest.raises(ValueError, match="overlaps another or ends behind"):
            Planner({}).plan(extents, 0, 8, 50)


def test_pieces_follow_each_other_without_a_gap_over_the_whole_file():
    draw = random.Random(3)
    for _ in range(20):
        at, extents = draw.randrange(8, 5000), list[Extent]()
        for line in range(60):
            size = draw.choice([1, 3, 8, 1000, 40_000, 3_000_000])
            extents.append(Extent(at, size, line))
            at += size + draw.choice([0, 0, 0, 5, 2_000_000])
        planner = Planner({})
        planner.plan(extents, 0, 8, at + 7)
        ends = [8, *(piece.end for piece in planner.pieces)]
        assert [piece.begin for piece in planner.pieces] == ends[:-1]
        assert ends[-1] == at + 7
        assert max(piece.size for piece in planner.pieces) <= shard_plan.PIECE_BYTES
        assert sorted(planner.homes) == list(range(60))


def test_the_checksum_of_a_whole_is_that_of_its_parts_put_together():
    draw = random.Random(5)
    content = draw.randbytes(100_000)
    for count in range(6):
        cuts = sorted(draw.randrange(len(content)) for _ in range(count))
        parts = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
        assert combine((crc32c.crc32c(part), len(part)) for part in parts) == crc32c.crc32c(content)


def test_a_state_of_another_attempt_under_the_same_step_is_not_mistaken(line):
    name = saved(line, ODD)
    with pytest.raises(FileNotFoundError):
        reader.load(line.store, CheckpointName.of(Attempt(1, "ffffff"), name.step))
