"""Which version of its own state each module wrote: a state that does not say so is taken for the oldest, and migrated.

`Module._version` is 1 unless a class says otherwise; `state_dict()` carries it in an attribute, by module.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

ORDINARY = 1


def of(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Module's name -> version, where it is not the ordinary one."""
    told: dict[str, dict[str, Any]] = getattr(state_dict, "_metadata", {})
    return {name: each["version"] for name, each in told.items() if each.get("version", ORDINARY) != ORDINARY}


def carried(model: nn.Module, saved: dict[str, Any], versions: Mapping[str, Any]) -> OrderedDict[str, Any]:
    """`saved` with the versions that it was written with, as `load_state_dict` looks for them."""
    found = OrderedDict(saved)
    names = [name for name, _ in model.named_modules(remove_duplicate=False)]
    vars(found)["_metadata"] = OrderedDict((name, {"version": versions.get(name, ORDINARY)}) for name in names)
    return found
