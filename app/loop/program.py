"""The objects whose state is saved, and how: what is captured at each boundary, what is read when a save happens.

Captured at each boundary, because forward passes and user code change it at any time: step, random generators, data
position, scheduler, scaler, parameter groups, buffers, extra state. Read only while nothing may change it: parameters
and optimizer state, which change behind the optimizer's gate.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from app.contract import Refusal
from app.loop import rng

if TYPE_CHECKING:
    from collections.abc import Mapping


@runtime_checkable
class Stateful(Protocol):
    """Anything whose position or state a checkpoint can hold."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


@dataclass(frozen=True)
class Boundary:
    """What was captured at a step boundary; owns its values."""

    step: int
    """Steps completed."""
    volatile: dict[str, Any]
    buffers: dict[str, dict[str, Any]]
    """Model key -> buffer name -> copy."""
    groups: dict[str, list[dict[str, Any]]]
    """Optimizer key -> its parameter groups without the parameters."""
    versions: int
    """Sum of the parameters' version counters: a hint that something changed them past the gate."""


class Program:
    """Model, optimizer, ... of one session. Each may be one object or a mapping of names to objects."""

    def __init__(
        self,
        *,
        model: Any = None,
        optimizer: Any = None,
        scheduler: Any = None,
        scaler: Any = None,
        data: Any = None,
        extra: Any = None,
        start_step: int = 0,
    ) -> None:
        self.models = _named("model", model)
        self.optimizers = _named("optimizer", optimizer)
        self.schedulers = _named("scheduler", scheduler)
        self.scalers = _named("scaler", scaler)
        self.others = _stateful("data", data) | _stateful("extra", extra)
        self.start_step = start_step
        self._parameters = [p for model in self.models.values() for p in model.parameters()]
        self._concerning: dict[int, Any] = {id(each): each for each in self.optimizers.values()}
        self._proven = set[int]()
        self._updated = set[int]()
        self._consumed = dict[int, list[tuple[int, int]]]()
        self._probes = dict[int, Any]()

    @property
    def has_live_tensors(self) -> bool:
        """Whether anything is read at save time rather than captured at the boundary."""
        return bool(self.models or self.optimizers)

    def concerns(self, optimizer: Any) -> bool:
        """Whether this optimizer is ours or updates one of our models: another's is no reason to wait."""
        if id(optimizer) not in self._concerning:
            ours = {id(p) for p in self._parameters}
            shared = any(id(p) in ours for group in optimizer.param_groups for p in group["params"])
            if not shared:
                return False
            self._concerning[id(optimizer)] = optimizer
        return True

    def optimizer_begins(self, optimizer: object) -> None:
        """From the gate: this optimizer's hook fires, and its gradients are being used up."""
        key = id(optimizer)
        self._proven.add(key)
        self._updated.add(key)
        self._consumed[key] = _gradients(optimizer)

    def half_accumulated(self) -> bool:
        """Whether gradients are pending that no optimizer has used: such a boundary cannot be saved.

        Gradients left over from the last update do not count; new ones show as other tensors or higher versions. Of an
        optimizer that never came to the gate, whether a parameter moved since the last boundary tells.
        """
        updated, self._updated = self._updated, set()
        for optimizer in self.optimizers.values():
            key = id(optimizer)
            if key in updated or not hasattr(optimizer, "param_groups"):
                continue
            moved = key not in self._proven and self._moved(optimizer)
            pending = _gradients(optimizer)
            if pending and pending != self._consumed.get(key) and not moved:
                return True
        return False

    def capture(self, step: int) -> Boundary:
        """Everything volatile, copied."""
        volatile = {
            "rng": rng.capture(),
            **{key: copy.deepcopy(each.state_dict()) for key, each in (self.schedulers | self.others).items()},
            **{key: _scaler_state(each) for key, each in self.scalers.items()},
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
        return Boundary(step, volatile, buffers, groups, self._versions())

    def untouched_since(self, boundary: Boundary) -> bool:
        """Whether parameters and optimizer state certainly are those of `boundary`, given that no gate fired since.

        True for a boundary that has nothing to save. Otherwise each optimizer must have been seen to fire the gate
        (one that is not a torch optimizer, or whose `step` was replaced, never does), and no parameter's version may
        have moved.
        """
        if not self.has_live_tensors or boundary.step == self.start_step:
            return True
        proven = bool(self.optimizers) and all(id(each) in self._proven for each in self.optimizers.values())
        return proven and self._versions() == boundary.versions

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
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Put a loaded state back, exactly. Raises Refusal naming what does not fit."""
        expected = {*self.models, *self.optimizers, *self.schedulers, *self.scalers, *self.others}
        present = set(state) - {"step", "rng"}
        if expected != present:
            raise Refusal(
                f"The checkpoint holds the state of {sorted(present)}, this program has {sorted(expected)}. Give the "
                "session the same objects under the same names. Nothing was changed."
            )
        for key, model in self.models.items():
            _load_model(key, model, state[key])
        for key, each in self.schedulers.items():
            each.load_state_dict(state[key])
        for key, optimizer in self.optimizers.items():
            _load_optimizer(key, optimizer, state[key])
        for key, each in self.scalers.items():
            each.load_state_dict(
                {name: value.item() if hasattr(value, "item") else value for name, value in state[key].items()}
            )
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

    def weights(self) -> dict[str, Any]:
        """Name -> tensor over all models; names are prefixed with the model's when there are several."""
        return {
            name if key == "model" else f"{key.removeprefix('model.')}.{name}": tensor
            for key, model in self.models.items()
            for name, tensor in model.state_dict().items()
        }

    def _moved(self, optimizer: Any) -> bool:
        """Whether its smallest parameter differs from what it was at the last call."""
        probe = min((p for group in optimizer.param_groups for p in group["params"]), key=lambda p: p.numel())
        before, self._probes[id(optimizer)] = self._probes.get(id(optimizer)), probe.detach().clone()
        return before is not None and not bool((before == probe).all())

    def _versions(self) -> int:
        return sum(p._version for p in self._parameters if not p.is_inference())


def _named(role: str, given: Any) -> dict[str, Any]:
    """`{"model": m}` for one object, `{"model.a": m, ...}` for a mapping, in order of names."""
    if given is None:
        return {}
    if isinstance(given, dict):
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


def _gradients(optimizer: Any) -> list[tuple[int, int]]:
    """Which gradient tensors exist, and in which version."""
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    return [(id(p.grad), p.grad._version) for p in parameters if p.grad is not None]


def _scaler_state(scaler: Any) -> dict[str, Any]:
    """`GradScaler.state_dict()` waits for the device; its two tensors are cloned instead."""
    scale, tracker = getattr(scaler, "_scale", None), getattr(scaler, "_growth_tracker", None)
    if scale is None or tracker is None:
        return copy.deepcopy(scaler.state_dict())
    return {
        "scale": scale.clone(),
        "growth_factor": scaler.get_growth_factor(),
        "backoff_factor": scaler.get_backoff_factor(),
        "growth_interval": scaler.get_growth_interval(),
        "_growth_tracker": tracker.clone(),
    }


def _load_model(key: str, model: Any, saved: dict[str, Any]) -> None:
    """`load_state_dict` would cast silently where dtypes differ: refuse that too."""
    here = {name: value for name, value in model.state_dict().items() if hasattr(value, "dtype")}
    there = {name: value for name, value in saved.items() if hasattr(value, "dtype")}
    wrong = [f"{name} is missing in the checkpoint" for name in sorted(here.keys() - there.keys())]
    wrong += [f"{name} is only in the checkpoint" for name in sorted(there.keys() - here.keys())]
    for name in sorted(here.keys() & there.keys()):
        ours, theirs = here[name], there[name]
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            wrong.append(f"{name} is {theirs.dtype} {list(theirs.shape)} there, {ours.dtype} {list(ours.shape)} here")
    if wrong:
        more = f", and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise Refusal(f"The checkpoint is of another {key}: {'; '.join(wrong[:8])}{more}. Nothing was changed.")
    model.load_state_dict(saved)


def _load_optimizer(key: str, optimizer: Any, saved: dict[str, Any]) -> None:
    try:
        optimizer.load_state_dict(saved)
    except (ValueError, KeyError) as error:
        raise Refusal(f"The checkpoint's {key} does not fit: {error}. The checkpoint was not changed.") from error
    if not hasattr(optimizer, "param_groups") or "state" not in saved:
        return
    # load_state_dict casts to the parameter's dtype: an fp32 moment of a bf16 parameter would lose bits.
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    indices = [index for group in saved["param_groups"] for index in group["params"]]
    for parameter, index in zip(parameters, indices, strict=True):
        if index in saved["state"]:
            optimizer.state[parameter] = _exact(optimizer.state[parameter], saved["state"][index])


def _exact(loaded: Any, saved: Any) -> Any:
    """`loaded` with every tensor whose dtype changed replaced by the saved one, on the device where it was loaded."""
    if hasattr(saved, "dtype") and hasattr(loaded, "dtype"):
        return loaded if loaded.dtype == saved.dtype else saved.to(loaded.device)
    if isinstance(saved, dict):
        return {name: _exact(loaded[name], value) for name, value in cast("dict[Any, Any]", saved).items()}
    if isinstance(saved, (list, tuple)):
        pairs = zip(loaded, cast("list[Any]", saved), strict=True)
        return type(saved)(_exact(ours, theirs) for ours, theirs in pairs)
    return loaded
