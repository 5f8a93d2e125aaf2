"""The objects whose state is saved, and how: what is captured at each boundary, what is read when a save happens.

Captured at each boundary, because forward passes and user code change it at any time: step, random generators, data
position, scheduler, scaler, parameter groups, buffers, extra state. Read only while nothing may change it: parameters
and optimizer state, which change behind the optimizer's gate, and gradients that no optimizer has used yet.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from app.checkpoint import skeleton
from app.contract import Refusal
from app.loop import covered, filling, fitting, marks, module_versions, orders, rng, scaler, tying
from app.loop.accumulation import Accumulation, is_still, parameters
from app.loop.boundary import Boundary
from app.loop.parts import leaves
from app.loop.restoring import load_gradients, load_model, load_optimizer, putting_back
from app.loop.subjects import (
    Stateful,
    by_name,
    given_as,
    of_torch_kind,
    refuse_shared_names,
    refuse_what_cannot_be_put_back,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import nn
    from torch.amp.grad_scaler import GradScaler
    from torch.optim import Optimizer
    from typing_extensions import TypeIs

    from app.checkpoint.table import Table


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
        self.models: dict[str, nn.Module] = given_as("model", model)
        self.optimizers: dict[str, Optimizer | Stateful] = given_as("optimizer", optimizer)
        self.schedulers: dict[str, Stateful] = given_as("scheduler", scheduler)
        self.scalers: dict[str, GradScaler] = given_as("scaler", scaler)
        self.others: dict[str, Stateful] = given_as("data", data) | given_as("extra", extra)
        states = {key: model.state_dict(keep_vars=True) for key, model in self.models.items()}
        refuse_shared_names(states)
        refuse_what_cannot_be_put_back(states)
        self.start_step = start_step
        self.gate_is_trusted = True
        """Until a save finds that something changed which only an optimizer should change."""
        self._find_parameters()
        self._concerning: dict[int, object] = {id(each): each for each in self.optimizers.values()}
        self._accumulation = Accumulation()
        self._orders = orders.Orders()

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

    def distrust_gate(self) -> None:
        """Only what stands still is saved from now on."""
        self.gate_is_trusted = False

    def was_seen(self, optimizer: object) -> bool:
        """Whether it came to the gate in this process, by the `step` that it has now."""
        return self._accumulation.was_seen(optimizer)

    def unsaved_parameters(self) -> list[str]:
        """Those that an optimizer updates and whose values no model nor anything else of the session has."""
        saved = {id(parameter) for parameter in self._parameters}
        loose = {name: p for name, p in self._named_parameters.items() if id(p) not in saved}
        if not loose:
            return []
        others = leaves([each.state_dict() for each in self.others.values()])
        held = {pointer() for value in others if (pointer := getattr(value, "data_ptr", None))}
        return [name for name, parameter in loose.items() if parameter.data_ptr() not in held]

    def positions(self) -> dict[str, Any]:
        """Where each object given as data stands, copied."""
        return {key: copy.deepcopy(each.state_dict()) for key, each in self.others.items() if key.startswith("data")}

    def unsavable_gradients(self, boundary: Boundary) -> list[str]:
        """Parameters with a pending gradient for which a checkpoint has no form."""
        return [name for name in boundary.pending if not _is_dense(self._named_parameters[name].grad)]

    def _find_parameters(self) -> None:
        self._parameters = [p for model in self.models.values() for p in model.parameters()]
        self._named_parameters = by_name(self.models, of_torch_kind(self.optimizers))
        self._groups = self._lists_of_groups()
        self._covered = {key: covered.of(model) for key, model in self.models.items()}

    def _lists_of_groups(self) -> list[tuple[list[Any], int]]:
        """What optimizers update, at the cost of a look at each group."""
        known = of_torch_kind(self.optimizers).values()
        return [(group["params"], len(group["params"])) for each in known for group in each.param_groups]

    def _has_other_groups(self) -> bool:
        """Whether a group was added or was given other parameters: a module may have been replaced."""
        now = self._lists_of_groups()
        pairs = zip(now, self._groups, strict=False)
        return len(now) != len(self._groups) or any(a[0] is not b[0] or a[1] != b[1] for a, b in pairs)

    def capture(self, step: int) -> Boundary:
        """Everything volatile, copied."""
        if self._has_other_groups():
            self._find_parameters()
        volatile = {
            "rng": rng.capture(),
            **{key: copy.deepcopy(each.state_dict()) for key, each in (self.schedulers | self.others).items()},
            **{key: scaler.capture(each) for key, each in self.scalers.items()},
        }
        buffers = {
            key: {name: buffer.detach().clone() for name, buffer in model.named_buffers(remove_duplicate=False)}
            for key, model in self.models.items()
        }
        for key, model in self.models.items():
            if buffers[key].keys() != self._covered[key].known:
                self._covered[key] = covered.of(model)
        groups = {
            key: [{name: copy.deepcopy(value) for name, value in group.items() if name != "params"} for group in found]
            for key, optimizer in self.optimizers.items()
            if (found := getattr(optimizer, "param_groups", None)) is not None
        }
        pending = self._accumulation.pending(self._named_parameters)
        return Boundary(step, volatile, buffers, groups, self._marks(), pending)

    def untouched_since(self, boundary: Boundary) -> bool:
        """Whether parameters and optimizer state certainly are those of `boundary`, given that no gate fired since.

        True for a boundary that has nothing to save. Otherwise each optimizer must have been seen to fire the gate
        (one that is not a torch optimizer, or whose `step` was replaced, never does), and neither the mark of a
        parameter or of optimizer state nor a pending gradient may have moved. A model whose state holds more than
        parameters and buffers (extra state, say) is read at boundaries only: a forward pass may have changed the rest.
        """
        if not self.has_live_tensors or boundary.step == self.start_step:
            return True
        if not self.gate_is_trusted or any(each.beyond for each in self._covered.values()):
            return False
        seen = bool(self.optimizers) and all(self.was_seen(each) for each in self.optimizers.values())
        if not seen or self._marks() != boundary.marks:
            return False
        return all(is_still(mark, self._named_parameters[name].grad) for name, mark in boundary.pending.items())

    def state(self, boundary: Boundary) -> dict[str, Any]:
        """The whole state at `boundary`; tensors of parameters and optimizers are the live ones."""
        state: dict[str, Any] = {"step": boundary.step, **boundary.volatile, "versions": {}}
        for key, model in self.models.items():
            live = model.state_dict()
            state["versions"][key] = module_versions.of(live)
            captured, names = boundary.buffers[key], self._covered[key].buffers
            state[key] = {name: captured[names[name]] if name in names else value for name, value in live.items()}
        for key, optimizer in self.optimizers.items():
            live = optimizer.state_dict()
            if key in boundary.groups and "param_groups" in live:  # a wrapper may have them where it likes
                pairs = zip(live["param_groups"], boundary.groups[key], strict=True)
                live = {**live, "param_groups": [{**captured, "params": group["params"]} for group, captured in pairs]}
            state[key] = live
        state["orders"] = dict(self._orders.of(self.models, of_torch_kind(self.optimizers)))
        if boundary.pending:
            state["gradients"] = {
                name: gradient if bool(gradient.any()) else 0
                for name in boundary.pending
                if _is_dense(gradient := self._named_parameters[name].grad)
            }
        return state

    def filled_from(self, table: Table) -> dict[str, torch.Tensor]:
        """Tensors by path in the state that the checkpoint's bytes may go straight into, once all of it fits.

        Raises Refusal naming what does not fit, and Damaged for a table that makes no sense.
        """
        saved = skeleton.of(table)
        fitting.refuse_senseless(saved, self.models)
        self._refuse_other_subjects(saved)
        for key, each in self.schedulers.items():
            fitting.refuse_scheduler(key, each, saved[key])
        for key, each in self.scalers.items():
            fitting.refuse_scaler(key, each, saved[key])
        for key, each in self.optimizers.items():
            fitting.refuse_optimizer(key, each, saved[key])
        fitting.refuse_gradients(self._named_parameters, saved.get("gradients", {}))
        values = {key: filling.values_of(model) for key, model in self.models.items()}
        claims = filling.Claims()
        for key, model in self.models.items():
            fitting.refuse_model(key, values[key], saved[key])
            claims += filling.of_model(key, model, values[key], saved[key])
        tying.refuse_other(values, saved)
        for key, optimizer in self.optimizers.items():
            claims += filling.of_optimizer(key, optimizer, saved[key])
        known = of_torch_kind(self.optimizers)
        orders.refuse_others(self.models, known, self._orders.of(self.models, known), saved.get("orders", {}))
        for key, each in known.items():
            fitting.refuse_state(key, each, saved[key])
        return filling.apart(claims)

    def restore(self, state: dict[str, Any]) -> None:
        """Put a loaded state back, exactly. Raises Refusal naming what does not fit.

        Whatever it raises, parts may be put back already: nothing may start from the program's objects then.
        """
        self._refuse_other_subjects(state)
        for key, model in self.models.items():
            with putting_back(key):
                load_model(key, model, state[key], state.get("versions", {}).get(key))
        for key, each in self.schedulers.items():
            with putting_back(key):
                each.load_state_dict(state[key])
        for key, optimizer in self.optimizers.items():
            with putting_back(key):
                load_optimizer(key, optimizer, state[key])
        for key, each in self.scalers.items():
            with putting_back(key):
                scaler.restore(each, state[key])
        with putting_back("gradients"):
            load_gradients(self._named_parameters, state.get("gradients", {}))
        for key, each in self.others.items():
            with putting_back(key):
                each.load_state_dict(state[key])
        rng.restore(state["rng"])  # last: the data loader above may draw while it finds its position
        self.start_step = state["step"]

    def _refuse_other_subjects(self, state: dict[str, Any]) -> None:
        expected = {*self.models, *self.optimizers, *self.schedulers, *self.scalers, *self.others}
        present = set(state) - {"step", "rng", "gradients", "versions", "orders"}
        if expected != present:
            raise Refusal(
                f"The checkpoint holds the state of {sorted(present)}, this program has {sorted(expected)}. Give the "
                "session the same objects under the same names. Nothing was changed."
            )

    def weights(self) -> dict[str, torch.Tensor]:
        """Name -> tensor over all models; names are prefixed with the model's when there are several."""
        return {
            name if key == "model" else f"{key.removeprefix('model.')}.{name}": tensor
            for key, model in self.models.items()
            for name, tensor in model.state_dict().items()
        }

    def _marks(self) -> int:
        return marks.of(self._parameters, of_torch_kind(self.optimizers).values())


def _is_dense(gradient: torch.Tensor | None) -> TypeIs[torch.Tensor]:
    import torch

    return gradient is not None and gradient.layout is torch.strided
