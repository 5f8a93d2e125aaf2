"""Whether a saved value is of the kind that the program has in its place: a number for a number, as many of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from app.contract import Refusal

_ONE_A_GROUP = {"_last_lr", "min_lrs"}
"""Lists that a scheduler makes anew when its optimizer has been given another group."""
_MOST = 2**63
"""No whole number that a program counts is larger."""


def refuse_other_kinds(what: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    """Of what both have by that name. Raises Refusal, which begins with `what`."""
    for name in here.keys() & there.keys():
        ours, theirs = here[name], there[name]
        if type(ours) is list and type(theirs) is list and (name in _ONE_A_GROUP or not ours):
            ours, theirs = ours[: len(theirs)], theirs[: len(ours)]  # an empty one may be a history's beginning
        _refuse_another_kind(f"{what}, {name}", ours, theirs)


def _refuse_another_kind(what: str, here: Any, there: Any) -> None:
    """Numbers for numbers, as many of them; what is None or a switch here may be anything that is None or one."""
    ours, theirs = _kind(here), _kind(there)
    if here is None or not ours or not theirs or (theirs == "nothing" and ours == "a switch"):
        return
    counts = type(here) is type(there) is int
    if ours != theirs or (counts and (abs(there) >= _MOST or there < 0 <= here)):
        raise Refusal(
            f"The checkpoint's {what} is {there!r:.60}, and {here!r:.60} here: {theirs} for {ours}. Nothing was "
            "changed. Give the session the object that it was made with."
        )
    if isinstance(here, Mapping):
        missing = sorted(name for name in map(str, here.keys() - there.keys()) if name[:1] != "_")
        if missing:  # what begins with an underscore differs between versions of torch
            raise Refusal(f"The checkpoint's {what} has no {', '.join(missing)}. Nothing was changed.")
        refuse_other_kinds(what, here, there)
    elif isinstance(here, (list, tuple)):
        for number, pair in enumerate(zip(cast("list[Any]", here), there, strict=True)):
            _refuse_another_kind(f"{what}, {number}", *pair)


def _kind(value: Any) -> str:
    """In words; empty for what may stand for anything."""
    if hasattr(value, "shape"):
        return "a number" if tuple(value.shape) in {(), (1,)} else "many numbers"
    match value:
        case None:
            return "nothing"
        case bool():
            return "a switch"
        case int() | float():
            return "a number"
        case list() | tuple():
            return f"a list of {len(cast('list[Any]', value))}"
        case _:
            return "text" if isinstance(value, str) else "a dict" if isinstance(value, Mapping) else ""
