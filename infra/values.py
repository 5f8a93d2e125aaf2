"""From the raw text of a configuration value to its type: Pulumi hands over texts, and lists and maps as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import Field
from typing import Any

from infra.mounts import ReadOnlyBucket


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
    if "ReadOnlyBucket" in kind:
        return _read_only_buckets(raw)
    return _texts(kind, raw)


def _read_only_buckets(raw: str) -> dict[str, ReadOnlyBucket]:
    fields = {"bucket": "bucket", "mountPath": "mount_path", "folder": "folder"}
    found: dict[str, ReadOnlyBucket] = {}
    for name, entry in _entries(raw).items():
        if not isinstance(entry, dict):
            # A wrong value of a setting, not a wrong type of a program.
            raise ValueError(  # noqa: TRY004
                f"holding {json.dumps(entry)} under {name}, where bucket and mountPath are expected"
            )
        given: dict[str, Any] = entry
        wrong = [key for key in given if key not in fields] + [
            key for key in ("bucket", "mountPath") if key not in given
        ]
        if wrong:
            raise ValueError(
                f"not right under {name} ({', '.join(wrong)}): bucket, mountPath and perhaps folder go there"
            )
        found[name] = ReadOnlyBucket(**{fields[key]: _text(value) for key, value in given.items()})
    return found


def _entries(raw: str) -> dict[str, Any]:
    value = _json_or_none(raw)
    if not isinstance(value, dict):
        raise ValueError("not a map of names to entries")  # noqa: TRY004 - as above
    return value


def _texts(kind: str, raw: str) -> Any:
    value = _json_or_none(raw)
    match kind.split("[", maxsplit=1)[0], value:
        case "tuple", list():
            return tuple(_text(item) for item in value)
        case "Mapping", dict():
            return {str(name): _text(item) for name, item in value.items()}
        case wanted, _:
            raise ValueError("not a list" if wanted == "tuple" else "not a map of names to texts")


def _json_or_none(raw: str) -> Any:
    try:
        return json.loads(raw)
    except json.JSONDecodeError:
        return None


def _text(item: Any) -> str:
    """YAML reads `400` and `true` as number and boolean; arguments and labels are texts, so both are taken as typed."""
    match item:
        case bool():
            return "true" if item else "false"
        case str() | int() | float():
            return str(item)
        case _:
            raise ValueError(f"holding {json.dumps(item)}, where a text is expected")
