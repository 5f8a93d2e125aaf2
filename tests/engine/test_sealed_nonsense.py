"""Sealed nonsense: a checkpoint with the right checksums whose state makes no sense ends in no traceback.

Every value of a real checkpoint is dropped, made another type, another length, negative or huge, and sealed again.
Then a session either goes on from the checkpoint before it and ends with the weights of a run that nothing disturbed,
or ends with a refusal that names the checkpoint and the part. A number that is replaced by another number is a state
like any other; of those only an end without a traceback is asked.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from app import session, startup
from app.checkpoint import codec, reader, writer
from app.checkpoint.names import CHECKPOINTS, checkpoints_among
from app.checkpoint.writer import Origin
from app.contract import Refusal, Task
from app.data import Batches
from app.shutdown import Shutdown
from tests.engine.memory_store import MemoryStore

STEPS = 5
Path_ = tuple[Any, ...]


class Net(nn.Module):
    """Tied weights, buffers, and a module whose state has another version than 1."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.leave = nn.Linear(3, 3, bias=False)
        self.leave.weight = self.enter.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(self.norm(self.enter(x)))


class Counter:
    """An object of the user's own, which takes what it is given."""

    def __init__(self) -> None:
        self.count, self.names = 0, ["a", "b"]

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "names": list(self.names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.names = int(state["count"]), [str(name) for name in state["names"]]


def train(store: MemoryStore, total: int = STEPS) -> dict[str, torch.Tensor]:
    """Gradients are used in every second step, so that some checkpoints hold pending ones."""
    torch.manual_seed(1)
    random.seed(1)
    model = Net()
    optimizer = torch.optim.AdamW(
        [{"params": [model.enter.weight]}, {"params": [model.enter.bias, *model.norm.parameters()], "lr": 1e-2}]
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, [1e-2, 1e-3], total_steps=STEPS + 2)
    data = Batches(torch.utils.data.DataLoader(torch.randn(12, 3), batch_size=4, shuffle=True), seed=2)
    scaler, extra = torch.amp.GradScaler("cpu", init_scale=4.0), Counter()
    start = startup.begin(Task(Path("/nowhere")), store)
    with session(
        **{"model": model, "optimizer": optimizer, "scheduler": scheduler, "data": data, "scaler": scaler},
        **{"extra": extra, "total_steps": total, "every_steps": 1, "keep": 9},
        **{"start": start, "shutdown": Shutdown()},
    ) as run:
        run._line.sleep = lambda _s: None
        for step in run.steps():
            extra.count += 1
            scaler.scale(model(next(data) + random.random()).square().mean()).backward()
            if step % 2:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                scheduler.step()
    return {name: value.clone() for name, value in model.state_dict().items()}


class Sealed:
    """A line with checkpoints of steps 1 to 3, whose newest is replaced."""

    def __init__(self) -> None:
        store = MemoryStore()
        train(store, 3)
        self.objects = {name: each for name, each in store.objects.items() if name != "done.json"}
        self.name = max(checkpoints_among(store.list(CHECKPOINTS)))
        loaded = reader.load(store, self.name)
        self.state, self.head = loaded.state, loaded.head

    def with_state(self, state: Any) -> MemoryStore:
        gone = (self.name.manifest, self.name.shards)
        store = MemoryStore({name: each for name, each in self.objects.items() if not name.startswith(gone)})
        writer.commit(store, self.name, codec.encode(state), Origin(self.head.identity, self.head.environment))
        return store


@pytest.fixture(scope="module")
def sealed() -> Sealed:
    return Sealed()


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, torch.Tensor]:
    return train(MemoryStore())


def places(tree: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Of every value of the state; of sequences, and of what is numbered, the first and the last."""
    if at:
        yield at
    if isinstance(tree, Mapping):
        for key in {*list(tree)[:1], *list(tree)[-1:]} if at[-1:] == ("state",) else tree:
            yield from places(tree[key], (*at, key))
    elif isinstance(tree, (list, tuple)):
        for index in sorted({*range(len(tree))[:1], *range(len(tree))[-1:]}):
            yield from places(tree[index], (*at, index))


def changed(tree: Any, at: Path_, value: Any) -> Any:
    """A copy with `value` there; `DROP` takes it out."""
    if not at:
        return value
    key, rest = at[0], at[1:]
    if isinstance(tree, Mapping):
        found = copy.copy(tree)
        if value is DROP and not rest:
            del found[key]
        else:
            found[key] = changed(tree[key], rest, value)
        return found
    items = list(tree)
    items[key : key + 1] = [] if value is DROP and not rest else [changed(items[key], rest, value)]
    return type(tree)(items)


DROP = object()


def nonsense(value: Any) -> dict[str, Any]:
    """By what is done to the value."""
    found = {"dropped": DROP, "text": "nonsense", "a list": [1, "x"], "a dict": {0: 1}}
    found |= {"none": None} if value is not None else {}
    if isinstance(value, torch.Tensor):
        found |= {"longer": torch.zeros(*value.shape, 2), "shorter": torch.zeros(0), "an array": value.numpy().copy()}
        found |= {"double": value.double()} if value.is_floating_point() else {}
    elif isinstance(value, (int, float)):
        found |= {"negative": type(value)(-7), "huge": type(value)(2**70), "a tensor": torch.ones(2)}
    elif isinstance(value, (list, tuple)):
        found |= {"longer": type(value)([*value, *value[-1:]]), "empty": type(value)(), "a number": 3}
    elif isinstance(value, Mapping):
        found |= {"empty": {}, "a number": 3, "one more": {**value, "surplus": 1}, "odd keys": {**value, 5.5: 1}}
    return found


def is_a_value(value: Any, what: str) -> bool:
    """Whether it is only another value of the same kind, with which no program can train: a beta of -7."""
    return (
        (type(value) in {float, bool} and what in {"negative", "huge"})
        or (type(value) is str and what == "text")
        or (isinstance(value, torch.Tensor) and what == "double")
    )


def is_as_good(at: Path_, what: str) -> bool:
    """Whether no reader could tell it from what a program wrote: other numbers, and state that had not come to be."""
    names = {str(each) for each in at}
    numbers = what in {"negative", "huge", "a number", "a tensor", "double"}
    return (
        numbers
        or (at == ("rng", "numpy") and what == "dropped")  # a generator that the program did not use
        or at[0] in {"versions", "orders", "gradients"}  # of an older version; gradients that had been used
        or at[0] == "extra"  # whose load_state_dict takes all of it
        or (at[0] == "optimizer" and (len(at) <= 3 or "param_groups" in names))
        or (at[0] == "scheduler" and (len(at) > 2 or at[1] not in {"last_epoch", "base_lrs", "_last_lr"}))
        or (at[0] == "scaler" or what in {"none", "double", "one more"})
    )


def test_sealed_nonsense_ends_in_the_checkpoint_before_or_in_a_refusal_that_names_it(
    sealed: Sealed, undisturbed: dict[str, torch.Tensor]
) -> None:
    faults, tried, went_back, refused_by = list[str](), 0, 0, 0
    for at in places(sealed.state):
        value: Any = sealed.state
        for key in at:
            value = value[key]
        for what, instead in nonsense(value).items():
            tried += 1
            told = f"{'/'.join(map(str, at))} {what}"
            store = sealed.with_state(changed(sealed.state, at, instead))
            try:
                weights = train(store)
            except Refusal as refused:
                refused_by += 1
                part = "optimizer" if at[0] == "orders" else at[0]
                if str(sealed.name) not in str(refused) or part not in str(refused):
                    faults.append(f"{told}: refused with {refused}")
            except Exception as error:
                if not is_a_value(value, what):
                    faults.append(f"{told}: {error!r}")
            else:
                went_back += str(sealed.name.record) in store.objects
                same = all(torch.equal(weights[name], undisturbed[name]) for name in weights)
                if not same and not is_as_good(at, what):
                    faults.append(f"{told}: trained to other weights")
    print(f"{tried} tried, {went_back} went back, {refused_by} refused")
    assert not faults, "\n".join([f"{len(faults)} of {tried}", *faults[:400]])
    assert went_back > 20
    assert refused_by > 20
