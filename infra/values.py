"""From the raw text of a configuration value to its type: Pulumi hands over texts, and lists and maps as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import Field
from typing import Any


def typed_value(key_field: Field[Any], raw: str) -> Any:
    """The value of a key from its raw text. Raises ValueError whose text completes "`...` is"."""
    kind = str(key_field.type)
    if kind == "str":
        return raw
    if kind == "int":
        if not re.fullmatch(r"-?[0-9]+", raw):
            raise ValueError("not a whole number")
        return int(raw)
    if kind == "bool":
        if raw not in ("true", "false"):
            raise ValueError("neither true nor false")
        return raw == "true"
    return _texts(kind, raw)


def _texts(kind: str, raw: str) -> Any:
    try:
        value: Any = json.loads(raw)
    except json.JSONDecodeError:
        value = None
    match kind.split("[", maxsplit=1)[0], value:
        case "tuple", list():
            return tuple(_text(item) for item in value)
        case "Mapping", dict():
            return {str(name): _text(item) for name, item in value.items()}
        case wanted, _:
            raise ValueError("not a list" if wanted == "tuple" else "not a map of names to texts")


def _text(item: Any) -> str:
    """YAML reads `400` and `true` as number and boolean; arguments and labels are texts, so both are taken as typed."""
    match item:
        case bool():
            return "true" if item else "false"
        case str() | int() | float():
            return str(item)
        case _:
            raise ValueError(f"holding {json.dumps(item)}, where a text is expected")
