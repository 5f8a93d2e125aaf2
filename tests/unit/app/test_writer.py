"""One save: the bytes of its shards whatever the memory they come from, and frozen tensors that are written once."""

from __future__ import annotations

import errno
import gc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import crc32c
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from app.checkpoint import codec, reader, writer
from app.checkpoint.line import Line
from app.checkpoint.manifest import Manifest
from app.checkpoint.names import CHECKPOINTS, Attempt, CheckpointName, checkpoints_among
from app.checkpoint.shards import blocks, layout, safetensors_file
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.store import Written, read
from app.checkpoint.writer import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ORIGIN = Origin({}, {})


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path)


def line(store: DirectoryStore, epoch: int = 1) -> Line:
    found = Line(store, Attempt(epoch), keep=2, check=lambda _any: None)
    store.publish(found.attempt.document, b"{}")
    return found


def head_of(store: DirectoryStore, name: CheckpointName):
    return Manifest.decode(read(store, name.manifest)).head


def test_pythons_garbage_collector_rests_while_the_json_of_a_save_is_made(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
):
    """It went through all of torch's objects for it, a tenth of a second in which the loop has no interpreter."""
    found = list[bool]()
    for module, name in ((writer, "join"), (layout, "columns"), (safetensors_file, "header")):
        made = getattr(module, name)

        def seen(*given: Any, made: Any = made) -> Any:
            found.append(gc.isenabled())
            return made(*given)

        monkeypatch.setattr(module, name, seen)

    line(store).commit(1, codec.encode({"w": torch.ones(3)}), ORIGIN)

    assert gc.isenabled()
    assert found == [False, False, False]


class TestImage:
    """What the blocks carry is what the values hold, in row-major order."""

    def image(self, *values: Any) -> bytes:
        blobs = codec.encode([*values]).blobs
        return b"".join(bytes(chunk) for chunk in blocks.stream(b"", blobs))

    @pytest.mark.parametrize(
        "value",
        [
            torch.arange(12).reshape(3, 4).t(),
            torch.arange(24.0).reshape(2, 3, 4)[:, ::2, 1:],
            torch.tensor(5.0),
            torch.zeros(0, 3),
            torch.ones(3).expand(4, 3),
            torch.tensor([1 + 2j, 3 - 4j]).conj(),
            torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
            torch.nn.Parameter(torch.arange(3.0)),
            np.arange(12).reshape(3, 4).T,
            np.array(3.5),
        ],
        ids=lambda value: str(type(value)),
    )
    def test_of_a_value_of_any_make(self, value):
        array = np.asarray(value.detach().resolve_conj().resolve_neg() if isinstance(value, torch.Tensor) else value)
        assert self.image(value) == array.tobytes()

    def test_that_is_larger_than_a_block(self, monkeypatch):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
        monkeypatch.setattr(blocks, "_kept", [])
        values = [
            torch.arange(100).reshape(10, 10).t(),
            torch.arange(7),
            torch.arange(1000.0).reshape(1, 2, 500)[..., 1:],
        ]
        assert self.image(*values) == b"".join(value.numpy().tobytes() for value in values)

    def test_of_neighbours_in_one_memory(self):
        staged = torch.arange(1000)
        assert self.image(*staged.split(7)) == staged.numpy().tobytes()

    def test_pieces_are_whole_blocks_that_begin_at_a_page(self):
        blobs = codec.encode([torch.zeros(3 * 2**20)]).blobs
        chunks = [
            (chunk.nbytes, np.frombuffer(chunk, np.uint8).ctypes.data) for chunk in blocks.stream(b"x" * 8, blobs)
        ]
        assert [size for size, _ in chunks] == [2**22, 2**22, 2**22, 8]
        assert all(address % 4096 == 0 for _, address in chunks)

    def test_blocks_are_used_again_but_never_by_two_at_once(self):
        with blocks.borrowed() as first, blocks.borrowed() as second:
            assert first is not second
        with blocks.borrowed() as again:
            assert again in (first, second)


class TestShards:
    def saved(self, store: DirectoryStore, state: Any, **options: Any) -> CheckpointName:
        name = CheckpointName.of(line(store).attempt, 1)
        writer.commit(store, name, codec.encode(state), ORIGIN, **options)
        return name

    def test_any_reader_of_the_format_opens_them_and_their_data_begins_at_a_page(self, store):
        state = {"a": torch.arange(5), 'ü"\\': torch.ones(2, 3), "c": torch.tensor([1j])}
        name = self.saved(store, state)
        path = store.root / name.shard(0)
        found = load_file(path)
        assert torch.equal(found['ü"\\'], state['ü"\\'])
        assert found["c"].dtype == torch.uint8
        assert (8 + int.from_bytes(path.read_bytes()[:8], "little")) % 4096 == 0

    def test_there_are_as_many_as_the_size_wants_and_they_are_about_equal(self, store):
        name = self.saved(store, {str(i): torch.zeros(25) for i in range(40)}, shard_bytes=1000)
        shards = head_of(store, name).shards
        assert len(shards) == 4
        assert len({shard.size_bytes for shard in shards}) == 1
        assert len(reader.load(store, name).state) == 40

    def test_their_checksums_are_those_of_the_files(self, store):
        name = self.saved(store, {"a": torch.rand(2**19), "b": torch.rand(2**20), "c": torch.rand(2**20)})
        shards = head_of(store, name).shards
        assert len(shards) == 2
        for shard in shards:
            content = (store.root / shard.name).read_bytes()
            assert (len(content), f"{crc32c.crc32c(content):08x}") == (shard.size_bytes, shard.crc32c)

    def test_the_layout_is_kept_as_long_as_it_fits(self):
        state = {"a": torch.zeros(3), "b": torch.zeros(2, 2)}
        first = layout.layout(codec.encode(state))
        assert layout.layout(codec.encode({"a": torch.ones(3), "b": torch.ones(2, 2)}), first) is first
        for other in (
            {"a": torch.zeros(3)},
            {**state, "b": torch.zeros(4)},
            {**state, "b": torch.zeros(2, 2).double()},
        ):
            assert layout.layout(codec.encode(other), first) is not first
        assert layout.layout(replace(codec.encode(state), frozen=frozenset({0})), first) is not first

    @pytest.mark.parametrize("theirs", [None, "right", "wrong"])
    def test_a_store_that_says_what_it_holds_is_believed_only_if_it_agrees(self, store, theirs):
        create = store.create

        def saying(name: str, chunks: Iterable[memoryview]) -> Written:
            size = create(name, chunks).size_bytes
            right = f"{crc32c.crc32c((store.root / name).read_bytes()):08x}"
            return Written(size, {None: None, "right": right, "wrong": "0badcafe"}[theirs])

        store.create = saying
        if theirs == "wrong":
            with pytest.raises(OSError, match="the store holds 0badcafe"):
                self.saved(store, {"a": torch.zeros(3)})
            assert checkpoints_among(store.list(CHECKPOINTS)) == []
        else:
            checked = head_of(store, self.saved(store, {"a": torch.zeros(3)})).checked
            assert checked == ("size+crc32c" if theirs else "size")


class TestFrozen:
    def state(self, step: int, still: int = 0, moving: int = 100) -> Any:
        """`still` is believed not to change."""
        found = codec.encode(
            {"step": step, "moving": torch.full((moving,), float(step)), "still": torch.arange(1000) + still}
        )
        return replace(found, frozen=frozenset(i for i, blob in enumerate(found.blobs) if blob.path == "still"))

    def own(self, store: DirectoryStore, name: CheckpointName) -> list[str]:
        return [entry.name.removeprefix(name.shards) for entry in store.list(name.shards)]

    def test_tensors_are_written_once_and_referred_to_then(self, store):
        saving = line(store)
        names = [saving.commit(step, self.state(step), ORIGIN) for step in (1, 2, 3)]
        assert [self.own(store, name) for name in names] == [
            ["001.safetensors"],  # the first checkpoint is pruned, and this is what the others need of it
            ["000.safetensors"],
            ["000.safetensors"],
        ]
        assert head_of(store, names[2]).shards[1].name == names[0].shard(1)
        loaded = reader.load(store, names[2]).state
        assert torch.equal(loaded["still"], torch.arange(1000))
        assert loaded["moving"][0] == 3

    def test_a_tensor_that_changed_after_all_is_written(self, store):
        saving = line(store)
        saving.commit(1, self.state(1), ORIGIN)
        second = saving.commit(2, self.state(2, still=5), ORIGIN)
        third = saving.commit(3, self.state(3, still=5), ORIGIN)
        assert self.own(store, second) == ["000.safetensors", "001.safetensors"]
        assert self.own(store, third) == ["000.safetensors"]
        assert reader.load(store, third).state["still"][0] == 5

    def test_what_was_resumed_from_is_referred_to(self, store):
        first = line(store).commit(1, self.state(1), ORIGIN)
        second = line(store, 2)
        second.resume(ever_committed=True)
        name = second.commit(2, self.state(2), ORIGIN)
        assert head_of(store, name).shards[1].name == first.shard(1)

    def test_what_was_neither_loaded_nor_written_is_not(self, store):
        line(store).commit(1, self.state(1), ORIGIN)
        name = line(store, 2).commit(2, self.state(2), ORIGIN)
        assert self.own(store, name) == ["000.safetensors", "001.safetensors"]

    def test_the_shards_of_a_failed_save_are_never_referred_to(self, store):
        def fails() -> None:
            raise OSError(errno.EIO, "no")

        saving = line(store)
        with pytest.raises(OSError, match="no"):
            saving.commit(1, self.state(1), ORIGIN, fails)
        name = saving.commit(1, self.state(1), ORIGIN)
        assert self.own(store, name) == ["000.safetensors", "001.safetensors"]

    @pytest.mark.parametrize("damage", ["gone", "cut"])
    def test_a_shard_that_is_not_there_any_more_is_written_again(self, store, damage):
        saving = line(store)
        first = saving.commit(1, self.state(1), ORIGIN)
        shard = store.root / first.shard(1)
        shard.unlink() if damage == "gone" else shard.write_bytes(b"short")
        looks = []
        name = saving.commit(2, self.state(2), ORIGIN, lambda: looks.append("before"))
        assert self.own(store, name) == ["000.safetensors", "001.safetensors"]
        assert reader.load(store, name).state["step"] == 2
        assert looks == ["before"]

    def test_one_that_vanishes_while_the_manifest_is_published_takes_the_manifest_with_it(self, store):
        saving = line(store)
        first = saving.commit(1, self.state(1), ORIGIN)
        with pytest.raises(OSError, match="taken back"):
            saving.commit(2, self.state(2), ORIGIN, (store.root / first.shard(1)).unlink)
        assert checkpoints_among(store.list(CHECKPOINTS)) == [first]
        name = saving.commit(2, self.state(2), ORIGIN)
        assert reader.load(store, name).state["step"] == 2

    def test_with_several_checkpoints_only_the_manifests_and_what_moves_are_new_bytes(self, store):
        saving = line(store)
        saving.commit(1, self.state(1), ORIGIN)
        saving.commit(2, self.state(2), ORIGIN)
        before = {entry.name for entry in store.list("shards/")}
        third = saving.commit(3, self.state(3), ORIGIN)
        new = [entry for entry in store.list("shards/") if entry.name not in before]
        assert [entry.name for entry in new] == [third.shard(0)]
