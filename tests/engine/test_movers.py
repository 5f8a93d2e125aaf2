"""The movers: what lies on a device goes its own way, a watch finds every change, and a loan is given back in order."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from app.loop.gate import Gate
from app.loop.loan import Loan, Moved
from app.loop.movers.cuda import CudaMover, fingerprint
from app.loop.movers.host import SHARE, HostMover
from app.loop.movers.mixed import MixedMover


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.int8])
def test_a_fingerprint_changes_with_any_value_and_with_the_order_of_rows(dtype):
    tensor = torch.arange(3000).remainder(100).to(dtype)
    before = fingerprint(tensor).tolist()
    assert fingerprint(tensor.clone()).tolist() == before
    for index in (0, 1023, 1024, 2047, 2999):
        changed = tensor.clone()
        changed[index] += 1
        assert fingerprint(changed).tolist() != before
    swapped = torch.cat((tensor[1024:2048], tensor[:1024], tensor[2048:]))
    assert fingerprint(swapped).tolist() != before


class Recording(HostMover):
    """Stands for a device's mover."""

    def __init__(self, calls: list[tuple[str, str, int]], name: str) -> None:
        super().__init__()
        self.calls, self.name = calls, name

    def copy_now(self, views: Any, values: Any) -> None:
        self.calls.append((self.name, "now", len(values)))
        super().copy_now(views, values)

    def copy_late(self, views: Any, values: Any) -> None:
        self.calls.append((self.name, "late", len(values)))
        super().copy_late(views, values)


def test_each_value_goes_by_the_mover_of_its_kind_of_device_and_comes_back_in_order():
    calls: list[tuple[str, str, int]] = []
    mover = MixedMover(
        Recording(calls, "host"), Recording(calls, "device"), lambda value: value.dtype == torch.bfloat16
    )
    values = [torch.full((5,), float(n), dtype=torch.bfloat16 if n % 2 else torch.float32) for n in range(5)]
    views = mover.stage(values)
    mover.copy_now(views[:3], values[:3])
    watch = mover.watch([str(n) for n in range(2)], values[3:], views[3:], turn=1)
    mover.copy_late(views[3:], values[3:])
    watch.look()
    mover.arrived()
    assert all(torch.equal(view, value) for view, value in zip(views, values, strict=True))
    assert (watch.risen(), watch.differs()) == (None, None)
    assert calls == [("device", "now", 1), ("host", "now", 2), ("device", "late", 1), ("host", "late", 1)]
    values[3] += 1
    assert watch.risen() == "0"


def test_arrays_and_strided_tensors_are_copied_as_they_are():
    mover = HostMover()
    values = [np.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(3, 4).t(), torch.tensor(3)]
    views = mover.stage(values)
    mover.copy_now(views, values)
    assert np.array_equal(views[0], values[0])
    assert torch.equal(views[1], values[1])
    assert views[1].is_contiguous()


def test_in_as_many_saves_as_there_are_parts_every_byte_is_looked_at():
    tensor = torch.zeros(1000, dtype=torch.uint8)
    found = set[int]()
    for turn in range(SHARE):
        watch = HostMover().watch(["t"], [tensor], None, turn)
        for index in range(1000):
            tensor.data[index] = 1
            watch.look()
            if watch.differs():
                found.add(index)
            tensor.data[index] = 0
    assert found == set(range(1000))


def test_a_copy_that_was_torn_while_the_tensor_is_whole_again_is_found():
    tensor = torch.zeros(6400)
    copy = torch.ones(6400)
    watch = HostMover().watch(["t"], [tensor], [copy], turn=3)
    watch.look()
    assert watch.differs() == "t"


def lent(gate: Gate[int], tensor: torch.Tensor) -> Loan:
    loan = Loan(HostMover().watch(["t"], [tensor], None, turn=0), None)
    gate.pass_boundary(7)
    gate.lend(loan)
    return loan


def in_thread(action: Any) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def test_an_update_waits_until_what_was_lent_is_given_back_and_then_says_whether_it_moved():
    gate: Gate[int] = Gate(lambda _boundary: True)
    tensor = torch.zeros(10)
    loan = lent(gate, tensor)
    update = in_thread(gate.enter_update)
    assert gate.moved(loan, 30, pytest.fail) is None  # the thread has come to the gate: nothing is left to settle
    assert update.is_alive()
    gate.give_back()
    update.join(30)
    tensor += 1  # the optimizer's
    assert gate.moved(loan, 30, pytest.fail) is None
    assert loan.waited_s > 0


def test_what_moved_before_the_gate_is_named_whatever_comes_later():
    gate: Gate[int] = Gate(lambda _boundary: True)
    tensor = torch.zeros(10)
    loan = lent(gate, tensor)
    tensor += 1
    gate.give_back()
    gate.enter_update()
    assert gate.moved(loan, 30, pytest.fail) == "t"
    assert loan.moved_at_return


def test_a_stop_does_not_wait_for_the_training_threads_word():
    gate: Gate[int] = Gate(lambda _boundary: True)
    tensor = torch.zeros(10)
    loan = lent(gate, tensor)
    gate.close()
    settled: list[str] = []

    def settle() -> None:
        settled.append("once")
        tensor.add_(1)  # an operation that was under way ends

    assert gate.moved(loan, 1e6, settle) == "t"
    assert settled == ["once"]


def test_a_loop_that_asks_at_each_item_says_it_without_waiting_for_the_update():
    gate: Gate[int] = Gate(lambda _boundary: True)
    loan = lent(gate, torch.zeros(10))
    gate.wait_if_held()  # is not held while it is read
    gate.give_back()
    gate.wait_if_held()
    assert gate.moved(loan, 1e6, pytest.fail) is None


def test_what_differs_is_never_announced():
    tensor = torch.zeros(6400)
    loan = Loan(HostMover().watch(["t"], [tensor], None, turn=0), None)
    tensor.data[:] = 1
    with pytest.raises(Moved) as moved:
        loan.compare()
    assert moved.value.what == "t"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_copy_is_of_the_boundary_though_the_update_is_asked_for_at_once():
    gate: Gate[int] = Gate(lambda _boundary: True)
    tensors = [torch.full((2**22,), float(n), device="cuda") for n in range(4)]
    mover = CudaMover()
    views = mover.stage(tensors)
    loan = Loan(
        mover.watch([str(n) for n in range(4)], tensors, views, turn=0), lambda: mover.copy_late(views, tensors)
    )
    gate.pass_boundary(7)
    gate.lend(loan)
    saver = in_thread(lambda: (loan.copy(), gate.give_back()))
    gate.enter_update()
    for tensor in tensors:
        tensor.add_(1)
    saver.join(30)
    loan.compare()
    mover.arrived()
    assert [float(view.sum()) for view in views] == [float(n) * 2**22 for n in range(4)]
    loan = Loan(mover.watch(["0"], tensors[:1], None, turn=0), None)
    tensors[0].data[5] = -1
    with pytest.raises(Moved):
        loan.compare()
