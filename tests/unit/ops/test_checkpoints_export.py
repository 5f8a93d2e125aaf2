"""`gpujob checkpoints export`: what the plain safetensors reader opens is, to the bit, what the model was."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import _TYPES, load_file, load_model
from torch import nn

from app.checkpoint import writer
from app.checkpoint.names import CheckpointName
from app.checkpoint.shards import safetensors_file
from app.checkpoint.trees.tree import commit_tree
from ops.checkpoints import exporting
from tests.unit.ops.checkpoint_lines import ORIGIN, commit, files_of, flip, gpujob, line_at, said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job-task-0"


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.norm = nn.BatchNorm1d(5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight


def of(model: nn.Module | dict[str, object], **more: object) -> dict[str, object]:
    weights = model.state_dict() if isinstance(model, nn.Module) else model
    return {"step": 10, "model": weights, "optimizer": {"state": {0: {"exp_avg": torch.ones(9)}}}, **more}


def exported(path: Path, out: Path, *more: object) -> dict[str, torch.Tensor]:
    done = gpujob("export", path, *more, "--out", out)
    assert done.exit_code == 0, said(done)
    return load_file(out)


def test_a_module_gets_its_weights_back(path, tmp_path):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    commit(line_at(path), 10, of(model))
    found = exported(path, tmp_path / "w.safetensors")
    assert found.keys() == model.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())
    nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).load_state_dict(found)


def test_tied_tensors_are_one_with_the_other_names_in_the_metadata(path, tmp_path):
    model, out = Tied(), tmp_path / "w.safetensors"
    commit(line_at(path), 10, of(model))
    found = exported(path, out)
    assert "head.weight" not in found
    with safe_open(out, "pt") as file:
        assert file.metadata()["head.weight"] == "embed.weight"
        assert (file.metadata()["format"], file.metadata()["step"]) == ("pt", "10")
    other = Tied()
    assert load_model(other, out) == (set(), [])
    assert torch.equal(other.head.weight, model.head.weight)
    other.load_state_dict(found, strict=False)


DTYPES = sorted(str(dtype).removeprefix("torch.") for dtype in _TYPES.values())


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_of_the_reader_comes_out_as_itself(path, tmp_path, dtype):
    kind = getattr(torch, dtype)
    raw = torch.arange(48, dtype=torch.uint8)
    value = raw.remainder(2).to(torch.bool) if dtype == "bool" else raw.view(kind)
    commit(line_at(path), 10, of({"w": value, "empty": value[:0], "scalar": value[1].clone()}))
    found = exported(path, tmp_path / "w.safetensors")
    assert {name: (each.dtype, each.shape) for name, each in found.items()} == {
        "w": (kind, value.shape), "empty": (kind, (0,)), "scalar": (kind, ()),
    }  # fmt: skip
    assert torch.equal(found["w"].view(torch.uint8), value.view(torch.uint8))


def test_the_dtypes_known_are_those_of_the_reader():
    known = {word: getattr(torch, name) for name, (word, _) in safetensors_file.DTYPES.items()}
    assert known == {word: dtype for word, dtype in _TYPES.items() if word in known}
    assert set(_TYPES) <= set(known)
    assert all(getattr(torch, name).itemsize == size for name, (_, size) in safetensors_file.DTYPES.items())


def test_a_dtype_without_a_word_is_refused_by_name(path, tmp_path):
    commit(line_at(path), 10, of({"w": torch.zeros(3, dtype=torch.complex128)}))
    done = gpujob("export", path, "--out", tmp_path / "w")
    assert (done.exit_code, "w of checkpoint" in said(done), "complex128" in said(done)) == (3, True, True)
    assert list(tmp_path.iterdir()) == [path]


def test_weights_spread_over_shards_and_blocks_come_together(path, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "SHARD_BYTES", 3000)
    monkeypatch.setattr("app.checkpoint.shards.content.BLOCK_BYTES", 512)
    weights = {f"w{i}": torch.randn(100 + 37 * i) for i in range(12)}
    name = commit(line_at(path), 10, of(weights))
    assert len(list((path / name.shards).iterdir())) > 3
    found = exported(path, tmp_path / "w.safetensors")
    assert all(torch.equal(found[key], value) for key, value in weights.items())


def test_of_several_models_one_is_chosen(path, tmp_path):
    line = line_at(path)
    state = {"step": 10, "model.live": {"w": torch.ones(2)}, "model.average": {"w": torch.zeros(2)}}
    commit(line, 10, state)
    done = gpujob("export", path, "--out", tmp_path / "w")
    assert (done.exit_code, "--model: average, live" in said(done)) == (3, True)
    assert torch.equal(exported(path, tmp_path / "w", "--model", "live")["w"], torch.ones(2))
    assert gpujob("export", path, "--out", tmp_path / "w", "--model", "none").exit_code == 3


def test_the_newest_that_can_be_used_is_taken_unless_one_is_named(path, tmp_path):
    line = line_at(path)
    for step in (10, 20, 30):
        name = commit(line, step, {"step": step, "model": {"w": torch.tensor([step])}})
    (path / name.manifest).write_bytes((path / name.manifest).read_bytes()[:-9])  # torn
    assert exported(path, tmp_path / "w")["w"].item() == 20
    assert exported(path, tmp_path / "w", 10)["w"].item() == 10


def test_extra_state_that_is_no_tensor_is_left_out(path, tmp_path):
    commit(line_at(path), 10, of({"w": torch.ones(2), "_extra_state": {"calls": 3}, "array": np.ones(3)}))
    assert exported(path, tmp_path / "w").keys() == {"w"}


@pytest.mark.parametrize("what", ["manifest", "shard"])
def test_a_damaged_checkpoint_is_exit_1_and_an_older_file_stays(path, tmp_path, what):
    name: CheckpointName = commit(line_at(path), 10, of({"w": torch.ones(300)}))
    flip(files_of(path, name)[what], -5)
    out = tmp_path / "w.safetensors"
    out.write_bytes(b"older")
    done = gpujob("export", path, name, "--out", out)
    assert (done.exit_code, "was not written" in said(done)) == (1, True)
    assert out.read_bytes() == b"older"
    assert sorted(tmp_path.iterdir()) == [path, out]


def test_a_tree_and_a_state_without_a_model_say_what_they_are(path, tmp_path):
    commit(line_at(path), 10, {"step": 10})
    assert "holds no model" in said(gpujob("export", path, "--out", tmp_path / "w"))
    (tmp_path / "out").mkdir()
    commit_tree(line_at(tmp_path / "tree"), 7, tmp_path / "out", ORIGIN)
    done = gpujob("export", tmp_path / "tree", "--out", tmp_path / "w")
    assert (done.exit_code, "directory tree of 0 files" in said(done)) == (3, True)


def test_memory_does_not_grow_with_the_weights(path, tmp_path):
    import tracemalloc

    commit(line_at(path), 10, of({f"w{i}": torch.zeros(2**20) for i in range(10)}))  # 40 MiB
    tracemalloc.start()
    try:
        assert gpujob("export", path, "--out", tmp_path / "w").exit_code == 0
        assert tracemalloc.get_traced_memory()[1] < 12 * 2**20
    finally:
        tracemalloc.stop()


def test_a_folder_that_is_not_there_is_named_and_the_line_is_not_blamed(path, tmp_path):
    commit(line_at(path), 10, of({"w": torch.ones(2)}))
    done = gpujob("export", path, "--out", tmp_path / "absent/w")
    assert (done.exit_code, f"no output folder {tmp_path}/absent" in said(done)) == (3, True)
    assert f"{path} cannot be used" not in said(done)


def test_trouble_with_the_file_that_is_written_names_its_folder(path, tmp_path, monkeypatch):
    commit(line_at(path), 10, of({"w": torch.ones(2)}))

    def full(_fd, _data, _at):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(exporting, "_pwrite", full)
    done = gpujob("export", path, "--out", tmp_path / "w")
    assert (done.exit_code, f"The output folder {tmp_path} cannot be used" in said(done)) == (3, True)
    assert list(tmp_path.iterdir()) == [path]
