"""The objects whose state is saved, and how: what is captured at each boundary, what is read when a save happens.

Captured at each boundary, because forward passes and user code change it at any time: step, random generators, data
position, scheduler, scaler, parameter groups, buffers, extra state. Read only while nothing may change it: parameters
and optimizer state, which change behind the optimizer's gate, and gradients that no optimizer has used yet.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from app.contract import Refusal
from app.loop import rng, scaler
from app.loop.accumulation import Accumulation, is_still, parameters
from app.loop.restoring import load_gradients, load_model, load_optimizer

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.amp.grad_scaler import GradScaler
    from torch.optim import Optimizer
    from typing_extensions import TypeIs

    from app.loop.accumulation import Mark

T = TypeVar("T")


@runtime_checkable
class Stateful(Protocol):
    """Anything whose position or state a checkpoint can hold."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


@dataclass(frozen=True)
class Boundary:
    """What was captured at a step boundary; owns its values."""

    step: int
    """Steps completed."""
    volatile: dict[str, Any]
    buffers: dict[str, dict[str, torch.Tensor]]
    """Model key -> buffer name -> copy."""
    groups: dict[str, list[dict[str, Any]]]
    """Optimizer key -> its parameter groups without the parameters."""
    versions: int
    """Sum of the parameters' version counters: a hint that something changed them past the gate."""
    pending: dict[str, Mark]
    """Parameter's name -> its gradient, where no optimizer has used it: part of the state."""


class Program:
    """Model, optimizer, ... of one session. Each may be one object or a mapping of names to objects."""

    def __init__(
        self,
        *,
        model: nn.Module | Mapping[str, nn.Module] | None = None,
        optimizer: Optimizer | Stateful | Mapping[str, Optimizer | Stateful] | None = None,
        scheduler: Stateful | Mapping[str, Stateful] | None = None,
        scaler: GradScaler | Mapping[str, GradScaler] | None = None,
        data: Stateful | Mapping[str, Stateful] | None = None,
        extra: Stateful | Mapping[str, Stateful] | None = None,
        start_step: int = 0,
    ) -> None:
        self.models: dict[str, nn.Module] = _named("model", model)
        self.optimizers: dict[str, Optimizer | Stateful] = _named("optimizer", optimizer)
        self.schedulers: dict[str, Stateful] = _named("scheduler", scheduler)
        self.scalers: dict[str, GradScaler] = _named("scaler", scaler)
        self.others = _stateful("data", data) | _stateful("extra", extra)
        self.start_step = start_step
        self._parameters = [p for model in self.models.values() for p in model.parameters()]
        self._named_parameters = _by_name(self.models, _of_torch_kind(self.optimizers))
        self._concerning: dict[int, object] = {id(each): each for each in self.optimizers.values()}
        self._accumulation = Accumulation()

    @property
    def has_live_tensors(self) -> bool:
        """Whether anything is read at save time rather than captured at the boundary."""
        return bool(self.models or self.optimizers)

    def concerns(self, optimizer: Optimizer) -> bool:
        """Whether this optimizer is ours or updates one of our models: another's is no reason to wait."""
        if id(optimizer) not in self._concerning:
            ours = {id(p) for p in self._parameters}
            shared = any(id(p) in ours for p in parameters(optimizer))
            if not shared:
                return False
            self._concerning[id(optimizer)] = optimizer
        return True

    def update_begins(self, optimizer: Optimizer) -> None:
        """From the gate: this optimizer's hook fires."""
        self._accumulation.update_begins(optimizer)

    def update_ended(self, optimizer: Optimizer) -> None:
        """Its gradients are used up."""
        self._accumulation.update_ended(optimizer)

    def unsavable_gradients(self, boundary: Boundary) -> list[str]:
        """Parameters with a pending gradient for which a checkpoint has no form."""
        return [name for name in boundary.pending if not _is_dense(self._named_parameters[name].grad)]

    def capture(self, step: int) -> Boundary:
        """Everything volatile, copied."""
        volatile = {
            "rng": rng.capture(),
            **{key: copy.deepcopy(each.state_dict()) for key, each in (self.schedulers | self.others).items()},
            **{key: scaler.capture(each) for key, each in self.scalers.items()},
        }
        buffers = {
            key: {name: buffer.detach().clone() for name, buffer in model.named_buffers(remove_duplicate=False)}
            for key, model in self.models.items()
        }
        groups = {
            key: [{name: copy.deepcopy(value) for name, value in group.items() if name != "params"} for group in found]
            for key, optimizer in self.optimizers.items()
            if (found := getattr(optimizer, "param_groups", None)) is not None
        }
        pending = self._accumulation.pending(self._named_parameters)
        return Boundary(step, volatile, buffers, groups, self._versions(), pending)

    def untouched_since(self, boundary: Boundary) -> bool:
        """Whether parameters and optimizer state certainly are those of `boundary`, given that no gate fired since.

        True for a boundary that has nothing to save. Otherwise each optimizer must have been seen to fire the gate
        (one that is not a torch optimizer, or whose `step` was replaced, never does), and neither a parameter's
        version nor a pending gradient may have moved.
        """
        if not self.has_live_tensors or boundary.step == self.start_step:
            return True
        seen = bool(self.optimizers) and all(self._accumulation.was_seen(each) for each in self.optimizers.values())
        if not seen or self._versions() != boundary.versions:
            return False
        return all(is_still(mark, self._named_parameters[name].grad) for name, mark in boundary.pending.items())

    def state(self, boundary: Boundary) -> dict[str, Any]:
        """The whole state at `boundary`; tensors of parameters and optimizers are the live ones."""
        state: dict[str, Any] = {"step": boundary.step, **boundary.volatile}
        for key, model in self.models.items():
            live = model.state_dict()
            captured = boundary.buffers[key]
            state[key] = {name: captured.get(name, value) for name, value in live.items()}
        for key, optimizer in self.optimizers.items():
            live = optimizer.state_dict()
            if key in boundary.groups:
                pairs = zip(live["param_groups"], boundary.groups[key], strict=True)
                live = {**live, "param_groups": [{**captured, "params": group["params"]} for group, captured in pairs]}
            state[key] = live
        if boundary.pending:
            state["gradients"] = {
                name: gradient if bool(gradient.any()) else 0
                for name in boundary.pending
                if _is_dense(gradient := self._named_parameters[name].grad)
            }
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Put a loaded state back, exactly. Raises Refusal naming what does not fit."""
        expected = {*self.models, *self.optimizers, *self.schedulers, *self.scalers, *self.others}
        present = set(state) - {"step", "rng", "gradients"}
        if expected != present:
            raise Refusal(
                f"The checkpoint holds the state of {sorted(present)}, this program has {sorted(expected)}. Give the "
                "session the same objects under the same names. Nothing was changed."
            )
        for key, model in self.models.items():
            load_model(key, model, state[key])
        for key, each in self.schedulers.items():
            each.load_state_dict(state[key])
        for key, optimizer in self.optimizers.items():
            load_optimizer(key, optimizer, state[key])
        for key, each in self.scalers.items():
            scaler.restore(each, state[key])
        load_gradients(self._named_parameters, state.get("gradients", {}))
        for key, each in self.others.items():
            each.load_state_dict(state[key])
        rng.restore(state["rng"])  # last: the data loader above may draw while it finds its position
        self.start_step = state["step"]

    def identity(self) -> dict[str, str]:
        """What the state belongs to: a model's tensors by name, shape and dtype; an optimizer's class."""
        found = dict[str, str]()
        for key, model in self.models.items():
            tensors = {name: t for name, t in model.state_dict().items() if hasattr(t, "dtype")}
            listing = "\n".join(f"{name} {t.dtype} {list(t.shape)}" for name, t in sorted(tensors.items()))
            digest = hashlib.sha256(listing.encode()).hexdigest()[:12]
            found[key] = f"{len(tensors)} tensors, {sum(t.numel() for t in tensors.values())} values, {digest}"
        found |= {key: type(optimizer).__name__ for key, optimizer in self.optimizers.items()}
        return found

    def weights(self) -> dict[str, torch.Tensor]:
        """Name -> tensor over all models; names are prefixed with the model's when there are several."""
        return {
            name if key == "model" else f"{key.removeprefix('model.')}.{name}": tensor
            for key, model in self.models.items()
            for name, tensor in model.state_dict().items()
        }

    def _versions(self) -> int:
        return sum(p._version for p in self._parameters if not p.is_inference())


def _is_dense(gradient: torch.Tensor | None) -> TypeIs[torch.Tensor]:
    import torch

    return gradient is not None and gradient.layout is torch.strided


def _by_name(models: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer]) -> dict[str, nn.Parameter]:
    """Every parameter once: under its model's key and its name there, or its optimizer's key and its number."""
    found = {f"{key}.{name}": each for key, model in models.items() for name, each in model.named_parameters()}
    known = {id(each) for each in found.values()}
    for key, optimizer in optimizers.items():
        found |= {f"{key}.{n}": each for n, each in enumerate(parameters(optimizer)) if id(each) not in known}
    return found


def _of_torch_kind(optimizers: Mapping[str, Optimizer | Stateful]) -> dict[str, Optimizer]:
    """Those with parameter groups: of any other neither parameters nor gradients are known."""
    return {key: cast("Optimizer", each) for key, each in optimizers.items() if hasattr(each, "param_groups")}


def _named(role: str, given: Any) -> dict[str, Any]:
    """`{"model": m}` for one object, `{"model.a": m, ...}` for a mapping, in order of names."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {f"{role}.{name}": each for name, each in sorted(cast("Mapping[str, Any]", given).items())}
    return {role: given}


def _stateful(role: str, given: Any) -> dict[str, Stateful]:
    named = _named(role, given)
    for key, each in named.items():
        if not isinstance(each, Stateful):
            raise Refusal(
                f"{key}= is a {type(each).__qualname__}, which has no state_dict() and load_state_dict(), so its "
                "position cannot be saved. Wrap a plain DataLoader in app.data.Batches, or use torchdata's "
                "StatefulDataLoader."
            )
    return named
