"""A restore fills the program's own tensors; objects that load their state in a way of their own still do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from app import session, startup
from app.checkpoint import codec
from app.checkpoint.line import Line
from app.checkpoint.storage.directory import DirectoryStore
from app.contract import Refusal, Task
from app.loop.program import Program
from app.shutdown import Shutdown
from tests.engine.lines import ORIGIN, Failing, attempt
from tests.engine.loops import begin

if TYPE_CHECKING:
    from pathlib import Path

    from app.loop.run import Run


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return attempt(DirectoryStore(tmp_path), 1)


def saved(line: Line, program: Program, step: int = 1) -> dict[str, Any]:
    """The state that is now on the line, copied."""
    encoded = codec.encode(program.state(program.capture(step))).copied()
    line.commit(step, encoded, ORIGIN)
    return codec.decode(encoded.tree, lambda index: encoded.blobs[index].value)


def restored(line: Line, program: Program) -> set[str]:
    """Resumes as a session does; returns the paths of the tensors that were filled in place."""
    filled = set[str]()

    def into(_head: object, table: Any) -> dict[str, torch.Tensor]:
        given = program.filled_from(table)
        filled.update(given)
        return given

    loaded = line.resume(ever_committed=True, into=into)
    assert loaded is not None
    program.restore(loaded.state)
    return filled


def trained(seed: int, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(5, 4, dtype=dtype)).sum().backward()
    optimizer.step()
    return model, optimizer


def addresses(program: Program) -> list[int]:
    (model,), (optimizer,) = program.models.values(), program.optimizers.values()
    states = [value for state in optimizer.state.values() for value in state.values()]  # type: ignore[union-attr]
    return [tensor.data_ptr() for tensor in [*model.state_dict().values(), *states]]


def test_parameters_buffers_and_optimizer_state_are_read_in_place(line):
    model, optimizer = trained(1)
    truth = saved(line, Program(model=model, optimizer=optimizer))
    model, optimizer = trained(2)
    program = Program(model=model, optimizer=optimizer)
    before = addresses(program)
    filled = restored(line, program)
    assert addresses(program) == before
    assert len(filled) == len(before)
    assert all(torch.equal(value, truth["model"][name]) for name, value in model.state_dict().items())
    for index, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, truth["optimizer"]["state"][index][name]) for name, value in state.items())


def test_an_optimizer_that_has_no_state_yet_takes_the_tensors_that_were_read_in_their_exact_dtype(line):
    model, optimizer = trained(1, torch.bfloat16)
    for state in optimizer.state.values():
        state["exp_avg"] = torch.randn(state["exp_avg"].shape)  # as a mixed-precision optimizer keeps it
    truth = saved(line, Program(model=model, optimizer=optimizer))
    fresh, _ = trained(2, torch.bfloat16)
    optimizer = torch.optim.AdamW(fresh.parameters(), lr=0.5)
    restored(line, Program(model=fresh, optimizer=optimizer))
    for index, state in optimizer.state_dict()["state"].items():
        assert {value.dtype for value in state.values()} == {torch.float32, torch.bfloat16}
        assert all(torch.equal(value, truth["optimizer"]["state"][index][name]) for name, value in state.items())
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_hooks_of_an_optimizer_see_the_state_itself(line):
    model, optimizer = trained(1)
    for state in optimizer.state.values():
        state["exp_avg"] = state["exp_avg"].double()
    saved(line, Program(model=model, optimizer=optimizer))
    seen = list[int]()
    optimizer.register_load_state_dict_post_hook(
        lambda each: seen.extend(state["exp_avg"].numel() for state in each.state.values())
    )
    restored(line, Program(model=model, optimizer=optimizer))
    assert min(seen) > 0


class Doubling(nn.Linear):
    """Saves half of what it holds."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"] = destination[prefix + "weight"] / 2

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        state_dict[prefix + "weight"] = state_dict[prefix + "weight"] * 2
        super()._load_from_state_dict(state_dict, prefix, *others)


class Counting(nn.Module):
    """Has extra state beside a plain child."""

    def __init__(self) -> None:
        super().__init__()
        self.child = nn.Linear(2, 2)
        self.count = 0

    def get_extra_state(self) -> int:
        return self.count

    def set_extra_state(self, state: int) -> None:
        self.count = state


def hooked() -> nn.Module:
    """A hook doubles what is loaded, below it too."""
    module = nn.Sequential(nn.Linear(3, 3))

    def double(_module: nn.Module, state_dict: Any, prefix: str, *_: Any) -> None:
        for name in ("0.weight", "0.bias"):
            state_dict[prefix + name] = state_dict[prefix + name] * 2

    module.register_load_state_dict_pre_hook(double)
    return module


def test_modules_with_a_way_of_their_own_are_left_to_it_and_extra_state_comes_back(line):
    def build() -> nn.ModuleDict:
        return nn.ModuleDict({"own": Doubling(3, 3), "extra": Counting(), "hooked": hooked(), "plain": nn.Linear(2, 2)})

    model = build()
    model["extra"].count = 7
    saved(line, Program(model=model))
    other = build()
    filled = restored(line, Program(model=other))
    assert filled == {f"model/{name}.{kind}" for name in ("extra.child", "plain") for kind in ("weight", "bias")}
    assert torch.equal(other["own"].weight, model["own"].weight)
    assert torch.equal(other["hooked"][0].weight, 2 * model["hooked"][0].weight)
    assert torch.equal(other["plain"].weight, model["plain"].weight)
    assert other["extra"].count == 7


class Two(nn.Module):
    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        if tied:
            self.b.weight = self.a.weight


def test_tied_tensors_are_filled_once(line):
    model = Two(tied=True)
    saved(line, Program(model=model))
    other = Two(tied=True)
    assert len(restored(line, Program(model=other))) == 1
    assert torch.equal(other.b.weight, model.b.weight)
    assert other.b.weight is other.a.weight


def test_parameters_that_are_views_of_one_memory_come_back(line):
    def build() -> nn.Module:
        flat = torch.randn(2, 6)
        model = nn.Module()
        model.first, model.second = nn.Parameter(flat[0]), nn.Parameter(flat[1])
        model.register_buffer("all", flat)
        return model

    model = build()
    saved(line, Program(model=model))
    other = build()
    restored(line, Program(model=other))
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in other.state_dict().items())


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"model": nn.Linear(4, 3)}, r"another model: .*weight is torch\.float32 \[2, 3\] there"),
        ({"model": nn.Linear(3, 2).half()}, r"torch\.float32 \[2\] there, torch\.float16 \[2\] here"),
        ({"model": nn.Linear(3, 2, bias=False)}, "bias is only in the checkpoint"),
        ({"model": nn.Linear(3, 2), "extra": torch.optim.SGD([torch.zeros(1)])}, r"has \['extra', 'model'\]\. Give"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_before_a_byte_is_read(line, tmp_path, other, told):
    saved(line, Program(model=nn.Linear(3, 2)))
    store = line.store = Failing(tmp_path)

    def no_shards(operation: str, name: str) -> None:
        assert operation != "open" or not name.startswith("shards")

    store.fail = no_shards
    with pytest.raises(Refusal, match=told):
        restored(line, Program(**other))


def test_another_kind_of_optimizer_is_refused_before_the_model_is_touched(line):
    model, optimizer = trained(1)
    saved(line, Program(model=model, optimizer=optimizer))
    other, _ = trained(2)
    before = other[0].weight.clone()
    with pytest.raises(Refusal, match=r"another kind of optimizer: its group 0 has .*betas.* and no .*momentum"):
        restored(line, Program(model=other, optimizer=torch.optim.SGD(other.parameters(), 0.1)))
    assert torch.equal(other[0].weight, before)


def test_an_optimizer_whose_groups_gained_a_field_with_a_newer_torch_is_taken(line):
    model, optimizer = trained(1)
    for group in optimizer.param_groups:
        del group["fused"]
    saved(line, Program(model=model, optimizer=optimizer))
    other, newer = trained(2)
    restored(line, Program(model=other, optimizer=newer))
    assert torch.equal(other[0].weight, model[0].weight)


def test_other_groups_of_parameters_are_refused_before_the_model_is_touched(line):
    model, optimizer = trained(1)
    saved(line, Program(model=model, optimizer=optimizer))
    other, _ = trained(2)
    before = other[0].weight.clone()
    optimizer = torch.optim.AdamW([{"params": list(other[0].parameters())}, {"params": list(other[2].parameters())}])
    with pytest.raises(Refusal, match=r"groups have \[6\] parameters, this program's \[2, 2\]"):
        restored(line, Program(model=other, optimizer=optimizer))
    assert torch.equal(other[0].weight, before)


def test_an_identity_named_as_an_object_of_the_session_does_not_hide_what_that_object_is(tmp_path, monkeypatch):
    def attempt_with(width: int, steps: int, name: str = "small") -> Run:
        model = nn.Linear(width, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        known = {"model": name, "optimizer": "mine"}
        with session(model=model, optimizer=optimizer, total_steps=steps, identity=known, start=begin(tmp_path)) as run:
            list(run.steps())
        return run

    with monkeypatch.context() as before:  # as this was until a user's key and an object's were kept apart
        before.setattr("app.loop.run.of_session", lambda _program, own: own)
        attempt_with(2, 1)
    assert attempt_with(2, 2).first_step == 1
    assert attempt_with(2, 3).first_step == 2
    with pytest.raises(Refusal, match=r"belongs to something else: the session's model: .* 6 values.* 8 values"):
        attempt_with(3, 4)
    with pytest.raises(Refusal, match="model: 'small' in the checkpoint, 'large' here"):
        attempt_with(2, 4, name="large")


def test_another_identity_is_told_before_other_tensors(tmp_path):
    def attempt_with(model: nn.Module, **identity: str) -> None:
        task = Task(tmp_path)
        start = startup.begin(task, startup.open_store(task))
        with session(model=model, total_steps=2, identity=identity, start=start, shutdown=Shutdown()) as run:
            for _ in run.steps():
                pass

    attempt_with(nn.Linear(2, 2), data="a")
    with pytest.raises(Refusal, match="belongs to something else: data: 'a' in the checkpoint, 'b' here"):
        attempt_with(nn.Linear(3, 3), data="b")
