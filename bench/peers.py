"""The peers: how others save and load the same state, each in its best documented configuration.

Where a peer leaves its file in the page cache, `fsync` is added so that all of them promise the same; Lightning's
plugin offers no place for it and is measured as it is, which favours it.
"""

from __future__ import annotations

import importlib
import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load_into
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, async_save
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TORCH = torch.__version__.split("+")[0]
TORCH_SAVE = f"torch.save {TORCH} + fsync"
TORCH_LOAD = f"torch.load {TORCH}"
SAFETENSORS = f"safetensors {version('safetensors')} save_file + fsync"
SAFETENSORS_LOAD = f"safetensors {version('safetensors')} load_file"
DCP_SAVE = f"DCP save (torch {TORCH})"
DCP_LOAD = f"DCP load (torch {TORCH})"
DCP_THREAD = f"DCP async_save, thread (torch {TORCH})"
DCP_PROCESS = f"DCP async_save, process (torch {TORCH})"


class Saver(Protocol):
    """One way to save from a training loop."""

    def save(self, state: dict[str, Any], path: Path) -> None:
        """Returns when training may change the tensors again."""
        ...

    def wait(self) -> None:
        """Returns when the last save is complete."""
        ...

    def close(self) -> None: ...


class Blocking:
    """A saver that is done when it returns."""

    def __init__(self, write: Callable[[dict[str, Any], Path], None]) -> None:
        self._write = write

    def save(self, state: dict[str, Any], path: Path) -> None:
        self._write(state, path)

    def wait(self) -> None: ...

    def close(self) -> None: ...


class DcpAsync:
    """Staging memory is allocated once and used again; shared with the other process where there is one."""

    def __init__(self, kind: AsyncCheckpointerType) -> None:
        self._kind = kind
        shared = kind is AsyncCheckpointerType.PROCESS
        self._stager = DefaultStager(StagingOptions(False, shared, False, False))
        self._future: Any = None

    def save(self, state: dict[str, Any], path: Path) -> None:
        self._future = async_save(
            state, checkpoint_id=path, async_checkpointer_type=self._kind, async_stager=self._stager
        )

    def wait(self) -> None:
        if self._future is not None:
            getattr(self._future, "upload_completion", self._future).result()

    def close(self) -> None:
        self._stager.close()


class Lightning:
    """`AsyncCheckpointIO` around the default `TorchCheckpointIO`."""

    def __init__(self) -> None:
        io = importlib.import_module("pytorch_lightning.plugins.io")
        self._plugin = io.AsyncCheckpointIO(io.TorchCheckpointIO())

    def save(self, state: dict[str, Any], path: Path) -> None:
        self._plugin.save_checkpoint(state, str(path))

    def wait(self) -> None:
        self._plugin.teardown()  # its way to wait; the next save makes a new thread

    def close(self) -> None: ...


def lightning_name() -> str | None:
    """With its version; None where it is not installed (requirements/bench.txt)."""
    try:
        return f"pytorch-lightning {version('pytorch-lightning')} AsyncCheckpointIO (no fsync)"
    except PackageNotFoundError:
        return None


def blocking() -> dict[str, Callable[[dict[str, Any], Path], None]]:
    """Savers that return when the bytes are on the disk."""
    return {TORCH_SAVE: torch_save, SAFETENSORS: safetensors_save, DCP_SAVE: dcp_save}


def loop_savers() -> dict[str, Callable[[], Saver]]:
    """Everything that a training loop may save with, made when it is called. Needs `join_a_group_of_one`."""
    savers: dict[str, Callable[[], Saver]] = {
        TORCH_SAVE: lambda: Blocking(torch_save),
        SAFETENSORS: lambda: Blocking(safetensors_save),
        DCP_SAVE: lambda: Blocking(dcp_save),
        DCP_THREAD: lambda: DcpAsync(AsyncCheckpointerType.THREAD),
        DCP_PROCESS: lambda: DcpAsync(AsyncCheckpointerType.PROCESS),
    }
    if name := lightning_name():
        savers[name] = Lightning
    return savers


def join_a_group_of_one(directory: Path) -> None:
    """DCP's saving process wants a process group, and that wants a name for this machine."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    dist.init_process_group("gloo", init_method=(directory / "rendezvous").resolve().as_uri(), rank=0, world_size=1)


def torch_save(state: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def safetensors_save(state: dict[str, Any], path: Path) -> None:
    save_file(flat(state), path)
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def dcp_save(state: dict[str, Any], path: Path) -> None:
    dcp_save_to(state, checkpoint_id=path)


def torch_load(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True)


def safetensors_load(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path)


def dcp_load(state: dict[str, Any], path: Path) -> None:
    """Into the tensors of `state`."""
    dcp_load_into(state, checkpoint_id=path)


def flat(state: Any, path: str = "") -> dict[str, torch.Tensor]:
    """Tensors only, by their path: what safetensors can hold."""
    if isinstance(state, torch.Tensor):
        return {path: state.detach()}
    found = dict[str, torch.Tensor]()
    if isinstance(state, dict | list):
        pairs = state.items() if isinstance(state, dict) else enumerate(state)
        for key, value in pairs:
            found |= flat(value, f"{path}/{key}" if path else str(key))
    return found


def copy_into(target: dict[str, Any], loaded: dict[str, torch.Tensor]) -> None:
    """Every tensor of `target` gets the loaded one's values."""
    for name, tensor in flat(target).items():
        tensor.copy_(loaded[name])
