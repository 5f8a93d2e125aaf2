"""The GPU that the job pays for must be usable, or the task ends in seconds: never train on the CPU by accident."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from app import logs
from app.contract import Refusal

DRIVER = Path("/proc/driver/nvidia/version")


def require(gpu: str) -> None:
    """Prove that a CUDA device computes. `gpu` is the type that the job declares, e.g. `nvidia-l4`. Raises Refusal."""
    import torch

    trouble = _trouble()
    if trouble is None:
        name = torch.cuda.get_device_name()
        logs.info(f"GPU {name}, torch {torch.__version__}, CUDA {torch.version.cuda}.", gpu=name)
        return
    raise Refusal(
        f"The job declares GPU {gpu}, but it cannot be used: {trouble}. NVIDIA driver: {_driver()}. torch "
        f"{torch.__version__} is built for CUDA {torch.version.cuda or 'none (a CPU build)'}. "
        f"{_advice(torch.version.cuda)} Ending before anything is trained on the CPU; checkpoints are untouched."
    )


def _trouble() -> str | None:
    import torch

    try:
        if not torch.cuda.is_available():
            return "torch finds no CUDA device"
        if int(torch.ones(8, device="cuda").sum().item()) != 8:
            return "a sum on it came out wrong"
    except RuntimeError as error:  # no kernel image for this device, out of memory, a broken driver
        return str(error).splitlines()[0]
    return None


def _driver() -> str:
    with suppress(OSError):
        found = re.search(r"(\d+\.\d+[.\d]*)", DRIVER.read_text(encoding="ascii", errors="replace"))
        return found[1] if found else "of unknown version"
    return "none found"


def _advice(cuda: str | None) -> str:
    if not DRIVER.exists():
        return "No GPU is attached to this task: check the job's GPU type, count and region."
    if cuda is None:
        return "Build the image with a CUDA build of torch."
    return (
        "The driver is probably older than torch's CUDA build needs: an L4 on Cloud Run has driver 535, which runs "
        "CUDA 12.x builds; CUDA 13 builds need driver 580. Build the image with the torch build for this GPU."
    )
