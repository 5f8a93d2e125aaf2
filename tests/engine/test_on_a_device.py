"""The same promises wherever the program lives: in host memory here, on a GPU where there is one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from app.loop.staging import Staging, pinned
from tests.engine.log_lines import lines
from tests.engine.loops import Wide, same

pytestmark = pytest.mark.usefixtures("fields_in_the_log")

CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=CUDA)])


class Placed(Wide):
    """Dropout draws from the device's generator; a scaler and a scheduler with a tensor learning rate are there."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=torch.tensor(0.01))
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.5)
        self.scaler = torch.amp.GradScaler(device, init_scale=2.0**8, growth_interval=2)
        self.subjects = {"scheduler": self.scheduler, "scaler": self.scaler}
        self.in_forward = threading.Event()

    def body(self, step: int) -> None:
        self.optimizer.zero_grad()
        x = torch.randn(6, 4, device=self.device)
        loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
        self.scaler.scale(loss).backward()
        if step == 8:
            self.in_forward.set()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()


@DEVICES
@pytest.mark.parametrize("snapshot", ["eager", "deferred", "streaming"])
def test_a_killed_and_a_stopped_run_end_with_the_weights_of_an_uninterrupted_one(device, snapshot, tmp_path, capfd):
    truth = Placed(device).run(tmp_path / "truth", 14, every=3, snapshot=snapshot)
    assert Placed(device).run(tmp_path / "line", 14, every=3, kill_at=7, snapshot=snapshot) is None
    stopped = Placed(device)
    stopped.run(tmp_path / "line", 14, every=3, stop_on=stopped.in_forward, snapshot=snapshot)
    capfd.readouterr()
    assert same(Placed(device).run(tmp_path / "line", 14, every=3, snapshot=snapshot), truth)
    told = lines(capfd.readouterr().out)
    assert not [line for line in told if line.get("severity") in ("WARNING", "ERROR")]
    assert snapshot in {line["snapshot"] for line in told if "save_bytes" in line}


@DEVICES
def test_a_state_on_the_device_comes_back_on_it_with_its_dtypes(device, tmp_path):
    class Halves(Placed):
        def __init__(self, device: str) -> None:
            super().__init__(device)
            self.model = nn.Linear(4, 2).to(device, torch.bfloat16)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
            self.subjects = {}

        def body(self, step: int) -> None:
            self.optimizer.zero_grad()
            self.model(torch.randn(6, 4, device=self.device, dtype=torch.bfloat16)).square().sum().backward()
            self.optimizer.step()
            moments = [each["momentum_buffer"] for each in self.optimizer.state.values()]
            assert {(each.device.type, each.dtype) for each in moments} == {(device, torch.bfloat16)}

    truth = Halves(device).run(tmp_path / "truth", 9, every=2)
    assert Halves(device).run(tmp_path / "line", 9, every=2, kill_at=5) is None
    assert same(Halves(device).run(tmp_path / "line", 9, every=2), truth)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_staging_is_locked_and_the_disk_reads_it(tmp_path: Path):
    (view,) = Staging(pinned).views([torch.empty(3 * 2**20, device="cuda")])
    assert view.is_pinned()
    view.copy_(torch.full((3 * 2**20,), 7.0, device="cuda"), non_blocking=True)
    torch.cuda.synchronize()
    assert float(view.sum()) == 7 * 3 * 2**20
    content = memoryview(view.numpy()).cast("B")
    fd = os.open(tmp_path / "copy", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    assert os.write(fd, content) == content.nbytes
    os.close(fd)
    assert (tmp_path / "copy").read_bytes() == content
