"""How a configuration key is declared, and found again: a dataclass field that carries its own documentation."""

from __future__ import annotations

from dataclasses import MISSING, Field, field
from typing import Any

NAMESPACE = "gpujob"

NAMED = "replaces what bears the name"
GUARDED = "replaces the bucket; refused by the engine unless disposable"


def key(default: Any, meaning: str, *, allowed: str, effect: str = "updates the job") -> Any:
    """A configuration key: its default, what it means, what is allowed, and what a change of it does."""
    metadata = {"meaning": meaning, "allowed": allowed, "effect": effect}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def camel(name: str) -> str:
    """`gpu_type` -> `gpuType`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def default_of(key_field: Field[Any]) -> Any:
    """What the key is where a stack does not set it."""
    return key_field.default if key_field.default is not MISSING else {}
