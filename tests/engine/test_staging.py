"""Whether a copy of the state is made, by memory and by what it costs, and the memory that it takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from app.loop import memory
from app.loop.movers.host import HostMover
from app.loop.staging import Staging, pinned
from tests.engine.log_lines import lines
from tests.engine.loops import Loop, Wide, steps_on

pytestmark = pytest.mark.usefixtures("fields_in_the_log")


def test_what_does_not_fit_into_memory_is_streamed_and_the_numbers_are_in_the_log(root, monkeypatch, capfd):
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)
    Wide().run(root, every=4, total=9)
    out = capfd.readouterr().out
    (told,) = lines(out, severity="WARNING")
    assert told["available_bytes"] == 2**20
    assert told["staging_bytes"] >= 2**20
    assert [line["snapshot"] for line in lines(out) if "save_bytes" in line] == ["streaming", "streaming", "direct"]


def test_a_mount_takes_memory_for_each_file_that_is_written_at_once(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 300 * 2**20)
    assert memory.staging_fits(200 * 2**20, on_mount=False)
    assert not memory.staging_fits(200 * 2**20, on_mount=True)
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert memory.staging_fits(2**40, on_mount=True)


def test_a_dear_copy_is_deferred_and_a_cheap_one_is_not(root, monkeypatch, capfd):
    cost = [0.0]
    monkeypatch.setattr(HostMover, "expected_s", lambda _self, _size: cost[0])

    class Dearer(Wide):
        def body(self, step: int) -> None:
            super().body(step)
            cost[0] = 1e9 if step >= 5 else 0.0

    Dearer().run(root, every=3, total=7)
    told = [line["snapshot"] for line in lines(capfd.readouterr().out) if "save_bytes" in line]
    assert told == ["eager", "deferred", "direct"]


def test_what_stands_in_staging_is_reused_and_grows_with_the_state():
    made: list[int] = []

    def allocate(size: int) -> torch.Tensor:
        made.append(size)
        return torch.empty(size, dtype=torch.uint8)

    staging = Staging(allocate)
    small = [torch.ones(3), torch.ones(2, 5, dtype=torch.bfloat16), torch.tensor(True), torch.empty(0)]
    first = staging.views(small)
    assert [(view.shape, view.dtype) for view in first] == [(value.shape, value.dtype) for value in small]
    assert staging.views([value.clone() for value in small]) is first
    again = staging.views([torch.ones(7)])
    assert again[0].data_ptr() == first[0].data_ptr()
    staging.views([torch.ones(2**20)])
    assert made == [2 * 2**20, 4 * 2**20]


class Cudart:
    """CUDA's part in pinned memory, as torch.cuda.cudart() has it."""

    def __init__(self, refuses_with: int = 0) -> None:
        self.refuses_with = refuses_with
        self.registered = dict[int, int]()

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        assert flags == 1
        if not self.refuses_with:
            self.registered[address] = size
        return self.refuses_with

    def cudaHostUnregister(self, address: int) -> int:
        del self.registered[address]
        return 0


def test_memory_for_a_device_is_no_larger_than_what_was_looked_at_and_let_go_with_its_last_view(monkeypatch):
    """Torch's own pinned memory is rounded up to a power of two: a task that had room for 9 GiB had to have 16."""
    cuda = Cudart()
    monkeypatch.setattr(torch.cuda, "cudart", lambda: cuda)
    staging = Staging(pinned)
    views = staging.views([torch.ones(5 * 2**18)])
    assert list(cuda.registered.values()) == [6 * 2**20] == [staging.size_bytes]
    assert views[0].data_ptr() in cuda.registered
    views[0].fill_(7)
    staging.views([torch.ones(2**21)])
    assert sorted(cuda.registered.values()) == [6 * 2**20, 8 * 2**20]  # the first is still being written
    assert float(views[0].sum()) == 7 * 5 * 2**18
    del views
    assert list(cuda.registered.values()) == [8 * 2**20]


def test_memory_that_cuda_will_not_lock_is_used_all_the_same(monkeypatch, capfd):
    cuda = Cudart(refuses_with=2)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: cuda)
    (view,) = Staging(pinned).views([torch.ones(3)])
    view.copy_(torch.ones(3))
    assert float(view.sum()) == 3
    (told,) = lines(capfd.readouterr().out, severity="WARNING")
    assert "cudaHostRegister: error 2" in told["message"]


def test_no_memory_for_a_copy_is_a_failed_save_and_no_end(root, monkeypatch, capfd):
    views, failures = Staging.views, [1]

    def short_of_memory(self: Staging, *values: Any) -> Any:
        if failures[0]:
            failures[0] -= 1
            raise MemoryError("no room")
        return views(self, *values)

    monkeypatch.setattr(Staging, "views", short_of_memory)
    monkeypatch.setattr("app.loop.interval.FIRST_AGAIN_S", 0.0)
    Loop().run(root, every=4, total=8)
    (failed,) = lines(capfd.readouterr().out, event="save_failed")
    assert failed["step"] == 4
    assert failed["message"].startswith("Saving step 4 failed")
    assert 5 in steps_on(root)
