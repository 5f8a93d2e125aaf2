"""Which parameters an optimizer's groups hold, and in which order: its state knows them by number alone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from app.contract import Refusal
from app.loop.accumulation import parameters
from app.loop.subjects import by_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn
    from torch.optim import Optimizer

NAMED = 3


class Orders:
    """For each optimizer a digest a group, of its parameters' names. Computed again only when the groups are others."""

    def __init__(self) -> None:
        self._ids: list[list[int]] = []
        self._known: dict[str, list[str]] = {}

    def of(self, models: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer]) -> dict[str, list[str]]:
        """Optimizer's key -> digests in the order of its groups."""
        ids = [list(map(id, group["params"])) for each in optimizers.values() for group in each.param_groups]
        if ids != self._ids or self._known.keys() != optimizers.keys():
            names = _names(models, optimizers)
            self._known = {
                key: [_digest(names[id(parameter)] for parameter in group["params"]) for group in each.param_groups]
                for key, each in optimizers.items()
            }
            self._ids = ids
        return self._known


def refuse_others(
    models: Mapping[str, nn.Module],
    optimizers: Mapping[str, Optimizer],
    here: Mapping[str, list[str]],
    there: Mapping[str, Any],
) -> None:
    """Raises Refusal, even for a fork. What `there`, of an older checkpoint, does not tell is not compared."""
    for key, optimizer in optimizers.items():
        if key not in there or there[key] == here[key]:
            continue
        names = _names(models, optimizers)
        here_in_order = [names[id(parameter)] for parameter in parameters(optimizer)]
        differing = [str(n) for n, pair in enumerate(zip(there[key], here[key], strict=False)) if pair[0] != pair[1]]
        more = f" and {len(here_in_order) - NAMED} more" if len(here_in_order) > NAMED else ""
        raise Refusal(
            f"The checkpoint's {key} was made with other parameters, in another order or in other groups (group "
            f"{', '.join(differing) or 'count'}): its state would go to the wrong ones. Here it has "
            f"{', '.join(here_in_order[:NAMED])}{more}. Nothing was changed. Give it the parameters as they were "
            "given when the checkpoint was made."
        )


def _names(models: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer]) -> dict[int, str]:
    """By the parameter's id. A tied one has its first name by the alphabet: which layer was made first says nothing."""
    names = {id(parameter): name for name, parameter in by_name(models, optimizers).items()}
    for key, model in models.items():
        for name, parameter in model.named_parameters(remove_duplicate=False):
            names[id(parameter)] = min(names[id(parameter)], f"{key}.{name}")
    return names


def _digest(names: Any) -> str:
    return hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:12]
