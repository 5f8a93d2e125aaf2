"""The states of torch's schedulers and of a gradient scaler: of the same kind as the program's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.contract import Refusal
from app.loop.fitting.kinds import refuse_other_kinds
from app.loop.fitting.sense import demand

if TYPE_CHECKING:
    from torch.amp.grad_scaler import GradScaler

    from app.loop.subjects import Stateful

_ALWAYS = ("last_epoch", "_step_count", "base_lrs", "_last_lr")
"""What torch's schedulers have had in every version, each those that it has."""


def refuse_scheduler(key: str, scheduler: Stateful, saved: Any) -> None:
    """One of torch's. Raises Damaged and Refusal."""
    from torch.optim.lr_scheduler import LRScheduler

    if not isinstance(scheduler, LRScheduler) or not type(scheduler).__module__.startswith("torch.optim."):
        return
    demand(isinstance(saved, Mapping), key, "is no dict")
    demand(set(map(type, saved)) <= {str}, key, "has names that are no text")
    here = scheduler.state_dict()
    absent = [name for name in _ALWAYS if name in here and name not in saved]
    mine, theirs = ({name for name in each if name[:1] != "_" and name != "verbose"} for each in (here, saved))
    missing, unknown = sorted(mine - theirs), sorted(theirs - mine)
    if absent or (missing and unknown):
        has = f"it has {', '.join(unknown)} and " if unknown else "it has "
        raise Refusal(
            f"The checkpoint's {key} is of another kind: {has}no {', '.join(absent or missing)}. Nothing was changed. "
            "Give the session the kind that it was made with."
        )
    refuse_other_kinds(key, here, saved)


def refuse_scaler(key: str, scaler: GradScaler, saved: Any) -> None:
    """Raises Damaged, and Refusal for what this one does not have."""
    demand(isinstance(saved, Mapping), key, "is no dict")
    here = scaler.state_dict()
    if saved and (missing := sorted(here.keys() - saved.keys())):
        raise Refusal(f"The checkpoint's {key} has no {', '.join(missing)}. Nothing was changed.")
    refuse_other_kinds(key, here, saved)
